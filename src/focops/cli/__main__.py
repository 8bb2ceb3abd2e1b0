"""python -m focops.cli"""

import sys

from focops.cli import main

sys.exit(main())
