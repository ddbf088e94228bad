import { operations } from '../generated/operations.ts'

export const help = `Usage: commit-status COMMAND [OPTION…]

Reports and reads the results of checks on commits.

Commands:
  report --state STATE            report ${operations.reportStatus.values.state.join(', ')}
      [--context C] [--description D] [--target-url U] [--truncate] [--json]
  run [--context C] [--target-url U] [--strict] -- COMMAND…
                                  run a command and report how it ends
  get [COMMIT] [--json]           show the statuses of a commit
  wait [COMMIT] [--require PATTERN…] [--only] [--settle 10s] [--stalled 2h]
      [--timeout 10m] [--interval 1s] [--json]
                                  wait until the required contexts decide;
                                  * in a PATTERN stands for any characters
  gate --branch-rules [REF OLD NEW]
                                  as a pre-receive or update hook, refuse what the
                                  branch rules do not allow

Options of every command. The default comes from the CI system or the git checkout:
  --repo OWNER/NAME   repository
  --sha COMMIT        full commit id, or what git resolves to one in this checkout
  --url BASE          address of the service, instead of COMMIT_STATUS_URL

Environment:
  COMMIT_STATUS_URL       address of the service
  COMMIT_STATUS_TOKEN     a personal access token
  COMMIT_STATUS_REPO      repository, where the CI system's name is not OWNER/NAME
  COMMIT_STATUS_TIMEOUT   longest time of all attempts of one request, 30s by default
`
