"""RPCValet (ASPLOS 2019): figures and claims."""

from nanoplane.papers.rpcvalet import dispatch, interface, service_times, theory

_PARTS = (theory, service_times, interface, dispatch)

FIGURES = tuple(figure for part in _PARTS for figure in part.FIGURES)
CLAIMS = tuple(claim for part in _PARTS for claim in part.CLAIMS)
