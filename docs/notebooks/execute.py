"""Executes the notebooks and stores what they show:  python docs/notebooks/execute.py"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nbclient
import nbformat

for file in sorted(Path(__file__).parent.glob("*.ipynb")):
    notebook = nbformat.read(file, as_version=4)
    with TemporaryDirectory() as folder:  # for runs/
        nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
    nbformat.write(notebook, file)
