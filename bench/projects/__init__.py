"""What the commands do to public projects: one row per project, as JSON and as one HTML page.

    python -m bench.projects FOLDER... --out results/ [--imports] [--execute --starters FOLDER]

Each folder is one project, as a plain tree. It is only read: what is rewritten, linted, imported
or run is a copy. Rows are written to `rows.json` as they come, so a second call goes on where
the first one stopped, and `index.html` shows those that are there. `--again` measures all of them
again, and keeps what was imported and executed before unless that is asked for, too. Nothing of a
project is kept but names, counts, years and reasons.
"""
