import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { minimalEnvironment } from '../helpers/process.ts'

const root = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)

/**
 * A machine on which the commands of a document run: real ones, except those that administer the
 * machine itself.
 */
export interface Machine {
  folder: string
  /** Address of the server that `npm start` and `systemctl start` start. */
  url: string
  /** Returns the text with the paths and addresses of this machine. */
  localize(text: string): string
  /** Runs lines of a shell, and fails with the first that fails. Returns what they print. */
  sh(lines: string): Promise<string>
}

/** Programs by name: what they do on the machine. */
const PROGRAMS: Record<string, string> = {
  'commit-status-server': 'exec "$NODE" "$ROOT/src/server.ts" "$@"',
  'commit-status-admin': 'exec "$NODE" "$ROOT/src/cli/main.ts" "$@"',
  sudo: '[ "$1" = -u ] && shift 2; exec "$@"',
  useradd: 'exit 0',
  // Accounts of the service do not exist here.
  install: `for a; do shift; case "$a" in --owner=*|--group=*) ;; *) set -- "$@" "$a";; esac; done; exec /usr/bin/install "$@"`,
  curl: `case "$*" in *--fail*) ;; *) set -- --fail-with-body "$@";; esac; exec /usr/bin/curl --silent --show-error "$@"`,
  askpass: 'echo "$TOKEN"',
  service: `case $1 in start|stop) ;; *) exit 1;; esac
if [ -e "$FOLDER/pid" ]; then
  kill "$(cat "$FOLDER/pid")"; while kill -0 "$(cat "$FOLDER/pid")" 2>/dev/null; do sleep 0.1; done; rm "$FOLDER/pid"
fi
[ "$1" = stop ] && exit 0
# The old log says that the server listens.
rm -f "$FOLDER/log"
set -a; [ ! -e "$FOLDER/commit-status.env" ] || . "$FOLDER/commit-status.env"; set +a
PORT="$SERVER_PORT" LOG_LEVEL=error "$NODE" "$ROOT/src/server.ts" >"$FOLDER/log" 2>&1 & echo $! >"$FOLDER/pid"
until grep -qs ^Listening "$FOLDER/log"; do kill -0 $! || exit 1; sleep 0.1; done`,
  systemctl: `case "$*" in
daemon-reload) ;;
"enable --now commit-status"|"enable --now commit-status@3000 commit-status@3001") service start;;
"start commit-status"|"restart commit-status") service start;;
"stop commit-status"|"disable --now commit-status") service stop;;
"reload nginx"|"reload caddy") ;;
"enable --now commit-status-backup.timer"|"start commit-status-backup.service") ;;
*) exit 1;; esac`,
  // The soak `operators` runs the real ones.
  'apt-get': '[ "$1 $2" = "install --yes" ]',
  chown: 'exit 0',
  createdb: 'exit 0',
  nginx: '[ "$*" = -t ]',
  psql: '[ "$1" = --command ]',
  // The soak `container` runs the real one.
  docker: `case "$1" in build) [ -e "$ROOT/$3" ];; run|exec) ;; *) exit 1;; esac`,
  // The soak `fresh-machine` runs the real ones.
  sha256sum: `[ "$*" = "--check --ignore-missing SHA256SUMS" ]`,
  tar: `[ "$1 $2" = "--extract --file" ] || exit 1
[ -d "\${5#*=}" ] || { mkdir -p "\${5#*=}/bin" && cp "$FOLDER"/bin/commit-status-* "\${5#*=}/bin"; }`,
  npm: `case "$*" in
ci|test) ;;
start) service start;;
"run --silent cli -- "*) shift 4; exec commit-status-admin "$@";;
"run "*) grep -q "^    \\"$2\\":" "$ROOT/package.json";;
"install --global --offline --prefix /usr/local ./commit-status-server-$("$NODE" "$ROOT/src/server.ts" --version)-linux-x64.tgz") ;;
*) exit 1;; esac`,
}

/** Sets up a machine. Its server is stopped when the test ends. */
export async function createMachine(t: Test): Promise<Machine> {
  const folder = temporaryFolder(t)
  const port = await freePort()
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  for (const [name, lines] of Object.entries(PROGRAMS)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${lines}\n`, { mode: 0o755 })
  }
  const env = {
    ...minimalEnvironment(),
    PATH: `${bin}:/usr/bin:/bin`,
    HOME: folder,
    NODE: process.execPath,
    ROOT: root,
    FOLDER: folder,
    SERVER_PORT: String(port),
    DATA_DIR: join(folder, 'data'),
    // Only one version is on this machine.
    OLDER: JSON.parse(readDocument('package.json')).version,
    GIT_ASKPASS: join(bin, 'askpass'),
    GIT_CONFIG_GLOBAL: '/dev/null',
  }
  const paths: [string, string][] = [
    ['/var/lib/commit-status', join(folder, 'data')],
    ['/var/backups/commit-status', join(folder, 'backups')],
    ['/var/tmp/commit-status-drill', join(folder, 'drill')],
    ['/etc/commit-status.env', join(folder, 'commit-status.env')],
    ['/etc/commit-status.oidc', join(folder, 'commit-status.oidc')],
    ['https://status.example.org/readyz', `http://127.0.0.1:${port}/readyz`],
    ['/etc/systemd/system/', join(folder, '/')],
    ['/opt/', join(folder, 'opt/')],
    ['/usr/local/bin/', join(bin, '/')],
    ['127.0.0.1:3000', `127.0.0.1:${port}`],
  ]
  t.teardown(() => run(join(bin, 'service'), ['stop'], { env }))
  const functions = new Set<string>()
  return {
    folder,
    url: `http://127.0.0.1:${port}`,
    localize: (text) => paths.reduce((result, [from, to]) => result.replaceAll(from, to), text),
    async sh(lines) {
      // A function that one block defines is used in those after it.
      for (const line of lines.match(/^\w+\(\) \{.*\}\n/gm) ?? []) functions.add(line)
      const script = `set -a\n${[...functions].join('')}${lines}`
      const shell = spawn('bash', ['-euo', 'pipefail', '-c', script], {
        cwd: folder,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      let [output, errors] = ['', '']
      shell.stdout.on('data', (text) => (output += text))
      shell.stderr.on('data', (text) => (errors += text))
      const [code] = await once(shell, 'close')
      if (code !== 0) throw new Error(`exit code ${code}: ${lines}\n${errors}${output}`)
      return output
    },
  }
}

/** Returns the blocks of code of a document, in order. */
export function codeBlocks(text: string): { language: string; code: string }[] {
  return [...text.matchAll(/^( *)```(\w*)\n([\s\S]*?)^\1```$/gm)].map(([, , language = '', code = '']) => ({
    language,
    code,
  }))
}

/** Returns the block of code that contains a text. @throws Error if there is none */
export function codeBlock(document: string, text: string): string {
  const found = codeBlocks(document).find(({ code }) => code.includes(text))
  if (!found) throw new Error(`there is no block of code with "${text}"`)
  return found.code
}

export function readDocument(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}
