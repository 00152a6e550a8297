"""The command `nanoplane` as `python -m nanoplane`."""

from nanoplane.cli import main

main()
