"""`python -m nanoplane` is the command `nanoplane`."""

from nanoplane.cli import main

main()
