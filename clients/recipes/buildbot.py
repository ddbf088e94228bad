# Buildbot, in master.cfg: its stock GitHubStatusPush reports here unchanged, since the path and the fields of a report
# are the ones it sends. The address of the repository that a build checks out has to end
# in OWNER/NAME.
import os

from buildbot.plugins import reporters, util


def commit_status():
    return reporters.GitHubStatusPush(
        token=os.environ["COMMIT_STATUS_TOKEN"],
        baseURL=os.environ["COMMIT_STATUS_URL"] + "/api/v1",
        context=util.Interpolate("buildbot/%(prop:buildername)s"),
    )


# c["services"].append(commit_status())
