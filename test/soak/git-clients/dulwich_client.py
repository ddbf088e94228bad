"""clone, fetch and push with dulwich: see git-clients.ts."""
import os
import sys

from dulwich import porcelain
from dulwich.client import get_transport_and_path
from dulwich.repo import Repo

operation, url, folder, *rest = sys.argv[1:]
token = os.environ.get("TOKEN")
auth = {"username": "x", "password": token} if token else {}
quiet = open(os.devnull, "wb")


def unsupported():
    sys.exit(3)


if operation == "clone":
    depth, filter_spec = rest
    options = {"depth": int(depth)} if depth else {}
    if filter_spec:
        options["filter_spec"] = filter_spec
    porcelain.clone(url, folder, bare=True, errstream=quiet, **options, **auth)
elif operation == "fetch":
    repo = Repo(folder)
    client, path = get_transport_and_path(url, **auth)
    spec, ref = rest
    if ":" not in spec and len(spec) == 40:
        client.fetch(path, repo, determine_wants=lambda refs, depth=None: [spec.encode()])
        repo.refs[ref.encode()] = spec.encode()
    else:
        result = client.fetch(path, repo)
        repo.refs[ref.encode()] = result.refs[spec.encode()]
else:
    spec, option = rest
    if option:
        unsupported()
    result = porcelain.push(folder, url, [spec.encode()], outstream=quiet, errstream=quiet, **auth)
    statuses = getattr(result, "ref_status", None) or {}
    refused = {ref: status for ref, status in statuses.items() if status}
    if refused:
        sys.exit(str(refused))
