import { operations } from '../generated/operations.ts'
import { textUsage } from './report.ts'

export const help = `Usage: commit-status COMMAND [OPTION…]

Reports and reads the results of checks on commits.

Commands:
  report --state STATE            report ${operations.reportStatus.values.state.join(', ')}
      ${textUsage}
      [--truncate] [--junit FILE…] [--wait-for-commit 0s] [--json]
  run [--context C] [--target-url U] [--strict] [--pass-token] [--clean]
      [--junit FILE…] [--wait-for-commit 0s] -- COMMAND…
                                  run a command, without the token in its
                                  environment, and report how it ends
  get [COMMIT] [--json]           show the statuses of a commit
  wait [COMMIT] [--require PATTERN…] [--only] [--settle 10s] [--stalled 2h]
      [--timeout 10m] [--interval 1s] [--wait-for-commit 0s] [--events]
      [--json]                    wait until the required contexts decide;
                                  * in a PATTERN stands for any characters
  wait [COMMIT] --branch NAME [--allow-no-rules] …
                                  wait for what the rules of a branch require
  land [COMMIT] [--onto main] [--timeout 30m] [--json]
                                  merge a commit into a branch of the server once
                                  the merge has passed its checks
  gate --branch-rules [REF OLD NEW]
                                  as a pre-receive or update hook, refuse what the
                                  branch rules do not allow

Options of every command. The default comes from the CI system or the git checkout:
  --repo OWNER/NAME   repository
  --sha COMMIT        full commit id, or what git resolves to one in this checkout
  --url BASE          address of the service, instead of COMMIT_STATUS_URL

--context is required where the CI system does not name the job.
--wait-for-commit 2m asks again for a commit that a mirror has not brought yet.

Environment:
  COMMIT_STATUS_URL       address of the service
  COMMIT_STATUS_TOKEN     a personal access token
  COMMIT_STATUS_REPO      repository, where the CI system's name is not OWNER/NAME
  COMMIT_STATUS_TIMEOUT   longest time of all attempts of one request, 30s by default
  HTTPS_PROXY, NO_PROXY   a proxy (Node 24.14 or later), and hosts to reach without it
  NODE_EXTRA_CA_CERTS     a file with the certificate of a private CA
`
