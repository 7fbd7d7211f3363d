-- A session of Neovim's own client (0.7 or newer) with `shardlift lsp`, without a screen.
-- Prints one line of JSON: what was shown, and the text after "Rewrite all in this file".
local python, path = vim.env.SHARDLIFT_PYTHON, vim.env.SHARDLIFT_FILE

vim.cmd("edit " .. path)
local buffer = vim.api.nvim_get_current_buf()
local start = vim.lsp.start_client or vim.lsp.start
local id = start({
  name = "shardlift",
  cmd = { python, "-P", "-m", "shardlift", "lsp" },
  root_dir = vim.fn.fnamemodify(path, ":h"),
})
vim.lsp.buf_attach_client(buffer, id)

local function shown() return #vim.diagnostic.get(buffer) > 0 end
assert(vim.wait(60000, shown, 50), "no diagnostics in 60 seconds")
local diagnostics = {}
for _, diagnostic in ipairs(vim.diagnostic.get(buffer)) do
  table.insert(diagnostics, { code = diagnostic.code, line = diagnostic.lnum })
end

-- Typing, without saving.
vim.api.nvim_buf_set_lines(buffer, -1, -1, false, { "more = jax.pmap(len)" })
local function more() return #vim.diagnostic.get(buffer) > #diagnostics end
assert(vim.wait(60000, more, 50), "no diagnostic for what was typed")

local client = vim.lsp.get_client_by_id(id)
local function ask(method, params)
  local answer = client.request_sync(method, params, 60000, buffer)
  assert(answer and not answer.err, vim.inspect(answer))
  return answer.result
end

local document = vim.lsp.util.make_text_document_params(buffer)
local place = { line = 2, character = 10 }
local hover = ask("textDocument/hover", { textDocument = document, position = place })
local actions = ask("textDocument/codeAction", {
  textDocument = document,
  range = { start = place, ["end"] = place },
  context = { diagnostics = {} },
})
local titles = {}
for _, action in ipairs(actions) do
  table.insert(titles, action.title)
  if action.title == "Rewrite all in this file with shard_map" then
    local edit = action.edit or ask("codeAction/resolve", action).edit -- made when it is chosen
    vim.lsp.util.apply_workspace_edit(edit, client.offset_encoding)
  end
end

io.stdout:write(vim.json.encode({
  diagnostics = diagnostics,
  hover = hover.contents.value,
  titles = titles,
  text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n"),
}) .. "\n")
client.stop()
vim.wait(10000, function() return client.is_stopped() end, 50)
vim.cmd("qall!")
