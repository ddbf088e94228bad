"""clone, fetch and push with pygit2: see git-clients.ts."""
import inspect
import os
import sys

import pygit2

operation, url, folder, *rest = sys.argv[1:]
token = os.environ.get("TOKEN")


class Callbacks(pygit2.RemoteCallbacks):
    asked = False

    def credentials(self, url, username, allowed):
        if not token or self.asked:
            raise pygit2.GitError("401: authentication required")
        self.asked = True
        return pygit2.UserPass("x", token)

    def push_update_reference(self, ref, message):
        if message:
            sys.exit(f"{ref}: {message}")


def unsupported():
    sys.exit(3)


callbacks = Callbacks()
if operation == "clone":
    depth, filter_spec = rest
    if filter_spec:
        unsupported()
    pygit2.clone_repository(url, folder, bare=True, callbacks=callbacks, depth=int(depth or 0))
elif operation == "fetch":
    spec, ref = rest
    repo = pygit2.Repository(folder)
    repo.remotes.create_anonymous(url).fetch([f"+{spec}:{ref}"], callbacks=callbacks)
else:
    spec, option = rest
    remote = pygit2.Repository(folder).remotes.create_anonymous(url)
    if not option:
        remote.push([spec], callbacks=callbacks)
    elif "push_options" in inspect.signature(remote.push).parameters:
        remote.push([spec], callbacks=callbacks, push_options=[option])
    else:
        unsupported()
