"""What many runs show together: their curves, the statistics over seeds, and the published figures beside them.

| file | holds |
|---|---|
| definition.py | a study as a file, and the runs that it stands for; `builtin/` has the paper's |
| results.py | run directories as plain data, also of runs in progress |
| groups.py | runs that differ only in their seed, and their mean curves |
| statistics.py | the paper's statistics and more robust ones, over seeds |
| published.py | the figures of the paper and of OmniSafe, from published.toml |
| figures.py | PNG and SVG |
| plot.py | `focops.plot` |
| tables.py | the table of a task, in Markdown and LaTeX |
| report.py | one HTML page that needs no network; `page/` has its template, style and script |
"""
