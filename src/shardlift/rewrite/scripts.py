"""What runs when: which files are scripts, what runs once, and where devices may be touched."""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File, remembered
from shardlift.source.libraries import GRADS
from shardlift.source.mentions import is_decorator
from shardlift.source.project import Project, is_test
from shardlift.source.reaching import reaching_bindings
from shardlift.source.scopes import COMPREHENSIONS, FUNCTIONS, LOOPS, grouped, position
from shardlift.source.values import Known

# What is in one of these may run many times.
MANY = (*LOOPS, *COMPREHENSIONS)
# What returns another function each time, and the methods in which an object is made.
_MAKE_NEW = GRADS | {"functools.partial", "jax.vmap", "jax.checkpoint", "jax.remat", "jax.jacfwd"}
_CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__attrs_post_init__", "setup"})
# What decides which devices there are: it has to run before one is touched.
_SET_UP = re.compile(
    r"^jax\.(.+\.)?(config\.(update|config_with_absl|parse_flags_with_absl)|distributed\.initialize)$"
    r"|^(os\.)?(environ\b|putenv$)|set_cpu_device|set_host_device_count$|^numpyro\.set_platform$"
)
# What a text that does so has, however it is broken into lines.
_SET_UP_WORDS = ("_with_absl", "environ", "putenv", "set_cpu_device", "set_platform", "host_device")
_SET_UP_CALLS = (
    re.compile(r"config\s*(\.\s*(update|config_with|parse_flags)|as\b)"),
    re.compile(r"distributed\s*(\.\s*initialize|as\b|import\b)"),
)
# What is said of devices in the options that `config.update` and the environment set.
_OF_DEVICES = re.compile(r"platform|device|cuda|backend|distributed|xla|tpu|nccl|rocm|coordinator")
# The test of a branch that sets what an object has not yet.
_IS_MISSING = re.compile(r"self\.\w+ is None|not hasattr\(self, .*\)")
# A function that trains, or runs, from the beginning to the end.
_TRAINING = re.compile(r"(?!.*(step|epoch))_?(train|fit|main|run)(_\w+)?")
# Each worker may import the script again.
_WORKERS = re.compile(r"\b(multiprocessing|ProcessPool\w*|DataLoader|joblib|ray)\b")
_FLAGS = re.compile(r"flags_with_absl|config_with_absl")
_ON_DEVICES = re.compile(
    r"jax\.(numpy|random|nn|lax)\.\w+$|jax\.(device|local_device|process|make_mesh)"
)


def runs_at_import(file: File, node: ast.expr) -> bool:
    """Whether a site is evaluated while its module is imported."""
    at: ast.AST = file.index.parents[node] if is_decorator(file, node) else node
    is_guarded = any(is_guard(around) for around in file.index.ancestors(at))
    return file.index.function_around(at) is None and not is_guarded


def runs_once(file: File, node: ast.AST, depth: int = 4) -> bool:
    """Whether a place runs once: at the top level, or in a function that is called once.

    A function that the project does not call may be where it starts, as a test is. What makes an
    object runs once for each.
    """
    for around in file.index.ancestors(node):
        if isinstance(around, MANY):
            return False
        if isinstance(around, ast.If) and _IS_MISSING.fullmatch(ast.unparse(around.test)):
            return True
        if isinstance(around, FUNCTIONS):
            name = getattr(around, "name", "")
            is_case = name.startswith("test") and is_test(file.path)
            is_started = name in _CONSTRUCTORS or is_case or _is_training(around)
            return is_started or (depth > 0 and _is_called_once(file, around, depth))
    return True


def _is_training(function: ast.AST) -> bool:
    """Whether a function is a whole training: it has a loop, and a program calls it once or so."""
    loops = any(isinstance(node, LOOPS) for node in ast.walk(function))
    return loops and _TRAINING.fullmatch(getattr(function, "name", "")) is not None


def _is_called_once(file: File, function: ast.AST, depth: int) -> bool:
    """Whether a project mentions a function at one place, which runs once, or starts with it."""
    parent = file.index.parents[function]
    name = getattr(function, "name", "")
    if getattr(function, "decorator_list", ()) or not name:
        return False
    if isinstance(parent, ast.ClassDef):
        methods = [(file, node) for node in attributes(file).get(name, ())]
        return len(methods) == 1 and runs_once(*methods[0], depth - 1)
    uses = list(global_mentions(file, name))
    is_global = function in file.index.root.body
    return is_global and len(uses) < 2 and all(runs_once(*use, depth - 1) for use in uses)


def global_mentions(file: File, name: str) -> Iterator[tuple[File, ast.Name | ast.Attribute]]:
    """Where a file, and those that import it, mention a function or variable of its top level."""
    yield from ((file, node) for node in file.index.names.get(name, ()))
    for other in map(file.project.file, file.project.graph.importers(file.path)):
        bound = [other.index.parents.get(n) for n in other.index.module.names.get(name, ())]
        if any(isinstance(statement, ast.ImportFrom) for statement in bound):
            yield from ((other, node) for node in other.index.names.get(name, ()))
        for node in attributes(other).get(name, ()):
            module = other.name(node.value)
            there = module and other.project.module(tuple(module.split(".")), other.path)
            if there and there.path == file.path:
                yield other, node


@remembered
def attributes(file: File) -> dict[str, list[ast.Attribute]]:
    """The attributes in a file by their names, those that are set included."""
    return grouped(file.index.nodes(ast.Attribute), lambda node: node.attr)


def is_program(file: File) -> bool:
    """Whether nobody imports a file: a notebook, or a script that runs a function of its own.

    That has `if __name__ == "__main__":`, or calls the function in its last line.
    """
    body = file.index.root.body
    last = body[-1] if body else None
    call = last.value if isinstance(last, ast.Expr) else None
    runs = isinstance(call, ast.Call) and isinstance(file.only(call.func), Known)
    is_run = runs or any(map(is_guard, body))
    is_alone = is_run and not file.project.graph.importers(file.path)
    return file.source.cells is not None or is_alone


def may_touch_devices(file: File, line: int) -> bool:
    """Whether a module may touch devices at a line of its top level.

    A script may, and a notebook: what sets JAX up has run by then, and nobody imports them.
    """
    if file.source.cells is not None:
        return True
    graph, setting = file.project.graph, _setting_up(file.project)
    others = (path for path in setting if path != file.path)
    if any(graph.is_same_program(file.path, path) for path in others) or _sets_up_later(file, line):
        return False
    if any(_touches_devices(file, call) for call in file.index.nodes(ast.Call)):
        return True
    return is_program(file) and not _WORKERS.search(file.source.text)


@remembered
def _setting_up(project: Project) -> list[str]:
    """The files that set JAX up in a function."""
    fresh = project.fresh()
    setting = [o.path for o in fresh.files_where(_may_set_up) if _sets_up_later(o, None)]
    fresh.close()
    return setting


def _may_set_up(text: str) -> bool:
    words = any(word in text for word in _SET_UP_WORDS)
    return words or any(call.search(text) for call in _SET_UP_CALLS)


def _sets_up_later(file: File, limit: int | None) -> bool:
    """Whether a file sets JAX up in a function, or at the top level from a line on."""
    if not _may_set_up(file.source.text):
        return False
    nodes: list[ast.Call | ast.Subscript] = [
        *file.index.nodes(ast.Call),
        *(node for node in file.index.nodes(ast.Subscript) if isinstance(node.ctx, ast.Store)),
    ]
    for node in (one for one in nodes if not _has_no_devices(one)):
        named = node.func if isinstance(node, ast.Call) else node.value
        text = file.name(named) or "".join(file.text(named).split())
        if _FLAGS.search(text):
            return True
        is_later = limit is not None and node.lineno >= limit
        if _SET_UP.search(text) and (is_later or file.index.function_around(node) is not None):
            return True
    return False


def _has_no_devices(node: ast.Call | ast.Subscript) -> bool:
    """Whether what is set has nothing to do with devices: `jax_enable_x64`, `WANDB_MODE`."""
    options = node.args if isinstance(node, ast.Call) else [node.slice]
    name = options[0].value if options and isinstance(options[0], ast.Constant) else None
    is_named = isinstance(name, str) and (name.startswith("jax_") or name.isupper())
    return is_named and not _OF_DEVICES.search(str(name).lower())


def _touches_devices(file: File, call: ast.Call) -> bool:
    """Whether a call makes, places or maps an array while the module is imported."""
    if file.index.function_around(call) is not None:
        return False
    is_mapped = any(call is other for other, _ in file.mapped_calls)
    if not is_mapped and not _ON_DEVICES.match(file.called(call) or ""):
        return False
    return not any(is_guard(node) for node in file.index.ancestors(call))


def is_guard(node: ast.AST) -> bool:
    """`if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def means_the_same(file: File, expression: ast.expr, place: ast.AST) -> bool:
    """Whether the names of an expression have one meaning, and the same above a place.

    What a function binds is there if one of its own statements above the place binds it.
    """
    return all(
        _is_bound_above(file, node, place)
        for node in ast.walk(expression)
        if isinstance(node, ast.Name)
    )


def _is_bound_above(file: File, name: ast.Name, place: ast.AST) -> bool:
    scope, _ = file.index.binding_scope(name)
    around = [
        file.index.opens[node] for node in file.index.ancestors(place) if node in file.index.opens
    ]
    binding = [other for other in around if name.id in other.names]
    if scope is None or binding[:1] != [scope] or len(scope.names[name.id]) > 1:
        return False
    bound = scope.names[name.id][0]
    if isinstance(bound, (ast.arg, ast.alias)) or scope is not around[0]:
        return True
    assignment = file.index.statement(bound)
    if not isinstance(assignment, ast.Assign) or position(assignment) > position(place):
        return False
    block = file.index.parents[assignment]
    return block is scope.node or is_guard(block)


def is_mapped_again(file: File, site: ast.AST, operand: ast.expr | None) -> bool:
    """Whether the same function object may be mapped at a site more than once.

    A lambda, what a transform or a call made, or a function that a decorator maps is a new one
    each time.
    """
    repeated = next(_repeated(file, site), None)
    if operand is None or repeated is None or _is_new(file, operand, repeated):
        return False
    if runs_once(file, site) or _is_kept(file, site, repeated):
        return False
    value = file.only(operand) if isinstance(operand, ast.Name) else None
    if not isinstance(value, Known) or value.file is not file:
        return True
    # A function that is defined beside the site is mapped as often as it is defined.
    return next(_repeated(file, value.node), None) is not repeated or _is_mapped_twice(file, value)


def _is_kept(file: File, site: ast.AST, method: ast.AST) -> bool:
    """Whether a method does no more with a site than to keep it in its object, for other methods.

    It sets the object up then, unless it is called in a loop, or by methods that may run again.
    """
    statement = file.index.statement(site)
    kept = statement.targets if isinstance(statement, ast.Assign) else []
    if not isinstance(file.index.parents.get(method), ast.ClassDef) or len(kept) != 1:
        return False
    of = kept[0].value if isinstance(kept[0], ast.Attribute) else None
    if not isinstance(of, ast.Name) or of.id != "self":
        return False
    calls = file.index.calls_in.get(method, ())
    if any(file.text(call.func) == file.text(kept[0]) for call in calls):
        return False
    return not any(
        isinstance(next(_repeated(file, use), None), MANY)
        or (file.text(use.value) == "self" and not runs_once(file, use))
        for use in attributes(file).get(getattr(method, "name", ""), ())
    )


def _is_new(file: File, operand: ast.expr, repeated: ast.AST) -> bool:
    """Whether an expression is another function each time that the code around it runs."""
    made = file.definition(operand)
    if isinstance(made, ast.Name):  # bound in several branches, perhaps
        bound = [file.index.statement(one) for one in reaching_bindings(file.index, made)]
        given = [one.value for one in bound if isinstance(one, ast.Assign)]
        return 1 < len(bound) == len(given) and all(_is_new(file, v, repeated) for v in given)
    if made is not operand and next(_repeated(file, made), None) is not repeated:
        return False
    if not isinstance(made, ast.Call):
        return isinstance(made, ast.Lambda)
    maker = file.only(made.func)
    if not isinstance(maker, Known):
        return file.called(made) in _MAKE_NEW
    values = [maker.file.only(returned) for returned in maker.returns()]
    inner = [value.node for value in values if isinstance(value, Known)]
    around = {maker.file.index.function_around(node) for node in inner}
    is_plain = not getattr(maker.node, "decorator_list", ())
    return is_plain and len(inner) == len(values) and around == {maker.node}


def _repeated(file: File, node: ast.AST) -> Iterator[ast.AST]:
    """The functions and loops around a node, from the inside."""
    return (one for one in file.index.ancestors(node) if isinstance(one, (*FUNCTIONS, *MANY)))


def _is_mapped_twice(file: File, function: Known) -> bool:
    """Whether two sites map a function, or may: others can have its name in their own scope."""
    operands = [
        m.node.args[0] for m in file.mentions if isinstance(m.node, ast.Call) and m.node.args
    ]
    name = getattr(function.node, "name", None)
    named = [n for n in operands if isinstance(n, ast.Name) and n.id == name]
    others = [value for value in map(file.only, named) if isinstance(value, Known)]
    return len(named) - sum(other.node is not function.node for other in others) > 1
