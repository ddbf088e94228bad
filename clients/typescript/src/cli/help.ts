export const help = `Usage: commit-status COMMAND [OPTION…]

Reports and reads the results of checks on commits.

Commands:
  report --state STATE            report pending, success, failure or error
      [--context C] [--description D] [--target-url U] [--truncate] [--json]
  run [--context C] [--target-url U] [--strict] -- COMMAND…
                                  run a command and report how it ends
  get [SHA] [--json]              show the statuses of a commit
  wait [SHA] [--require CONTEXT…] [--timeout 10m] [--interval 1s] [--json]
                                  wait until the combined state is final

Options of every command, found from the CI system or the git checkout otherwise:
  --repo OWNER/NAME   repository
  --sha SHA           full commit id
  --url BASE          where the service is, instead of COMMIT_STATUS_URL

Environment:
  COMMIT_STATUS_URL       where the service is
  COMMIT_STATUS_TOKEN     a personal access token
  COMMIT_STATUS_TIMEOUT   longest time of all tries of one request, 30s by default
`
