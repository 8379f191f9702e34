"""`python -I services/agent/worker HOST [WHY]`: makes this folder a package, wherever it lies, and begins."""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    # At the end, so that nothing in there hides a module that PyTorch imports.
    sys.path[:] = [*(entry for entry in sys.path if Path(entry) != here), str(here.parent)]
    importlib.import_module(f"{here.name}.lead").main(*sys.argv[1:])
