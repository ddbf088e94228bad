import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { git, gitWith } from '../../../../test/helpers/git.ts'
import { startServer } from '../../../../test/helpers/server.ts'
import { findProcesses } from '../../src/cli/work/processes.ts'
import { openWorkPlace } from '../helpers/working.ts'

/** What somebody who may push can make of a worker beside running the command. */
const server = await startServer(t)
const place = await openWorkPlace(t, server, 'acme/rocket')
const { push, work, result, path } = place
t.setTimeout(240_000)

t.test('git runs nothing that a commit or the configuration of the user names', async (t) => {
  const home = temporaryFolder(t)
  const trap = join(home, 'trap')
  const touched = join(home, 'touched')
  writeFileSync(trap, `#!/bin/sh\necho "$0 $*" >> ${touched}\ncat\n`)
  chmodSync(trap, 0o755)
  for (const folder of ['hooks', 'template/hooks']) {
    mkdirSync(join(home, folder), { recursive: true })
    for (const hook of ['post-checkout', 'reference-transaction', 'pre-auto-gc']) {
      writeFileSync(join(home, folder, hook), readFileSync(trap))
      chmodSync(join(home, folder, hook), 0o755)
    }
  }
  writeFileSync(
    join(home, '.gitconfig'),
    `[filter "evil"]\n smudge = ${trap}\n clean = ${trap}\n process = ${trap}\n required\n` +
      `[core]\n hooksPath = ${join(home, 'hooks')}\n fsmonitor = ${trap}\n sshCommand = ${trap}\n attributesFile = ${join(home, 'attributes')}\n` +
      `[init]\n templateDir = ${join(home, 'template')}\n[submodule]\n recurse = true\n[protocol]\n allow = always\n` +
      `[credential]\n helper = ${trap}\n[url "ext::${trap} "]\n insteadOf = ${server.url}\n[uploadpack]\n packObjectsHook = ${trap}\n`,
  )
  writeFileSync(join(home, 'attributes'), '* filter=evil\n')
  const sub = `[submodule "sub"]\n path = sub\n url = ext::sh -c touch% ${touched}\n update = !touch ${touched}\n`
  const sha = push('main', 'cat file', {
    files: {
      file: { text: 'as it is' },
      '.gitattributes': { text: '* filter=evil\n' },
      '.gitmodules': { text: sub },
      '.lfsconfig': { text: '[lfs]\n url = https://evil.test\n' },
    },
  })
  // The submodule itself is an entry of the tree.
  const tree = git(path, 'ls-tree', sha)
  const withModule = gitWith(path, `${tree}\n160000 commit ${sha}\tsub\n`, 'mktree', '--missing')
  const commit = git(path, 'commit-tree', '-p', sha, '-m', 'Add a submodule', withModule)
  git(path, 'update-ref', 'refs/heads/main', commit)
  const env = {
    HOME: home,
    XDG_CONFIG_HOME: home,
    GIT_CONFIG_GLOBAL: join(home, '.gitconfig'),
    GIT_DIR: home,
  }
  // The command itself may use the configuration of its user.
  const command = ['env', 'GIT_CONFIG_GLOBAL=/dev/null', 'sh', 'ci.sh']
  const { code, stdout, stderr } = await work(['--once'], { env, command }).finished
  t.equal(code, 0, stderr)
  t.match(stdout, 'as it is')
  t.match(await result(commit), /^success/)
  t.notOk(existsSync(touched), existsSync(touched) ? readFileSync(touched, 'utf8') : '')
})

t.test('JUnit files are those of the checkout', async (t) => {
  const outside = join(temporaryFolder(t), 'outside.xml')
  const xml = (name: string) => `<testcase name="${name}"><failure/></testcase>`
  writeFileSync(outside, xml('secret'))
  // An older file is left out anyway.
  const later = Date.now() / 1_000 + 3_600
  utimesSync(outside, later, later)
  const script = `mkdir -p real folder
    printf '%s' '${xml('own')}' > real/own.xml
    ln -s '${outside}' link.xml; ln -s '${outside.replace('/outside.xml', '')}' dir; ln -s real/own.xml inside.xml
    mkfifo pipe.xml; exit 1`
  const files = [
    'link.xml',
    'dir/outside.xml',
    `../../../../..${outside}`,
    'pipe.xml',
    'folder',
    '/dev/zero',
    'inside.xml',
  ]
  const sha = push('main', script)
  const { stderr } = await work(['--once', '--junit', ...files]).finished
  t.equal(await result(sha), 'failure: 1 of 1 failed: own')
  t.equal(stderr.match(/is left out/g)?.length, files.length - 1)
  t.notMatch(stderr, 'secret')
})

t.test('what is left in the background neither delays the result nor outlives it', async (t) => {
  const sha = push(
    'main',
    `echo "run $COMMIT_STATUS_RUN."
    sleep 1001 &
    setsid sleep 1002 &
    (setsid sh -c '(sleep 1003 &) ; exit' &)
    nohup setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' > /dev/null 2>&1 &
    env --unset=COMMIT_STATUS_RUN sleep 1004 &`,
  )
  const start = performance.now()
  const { stdout } = await work(['--once']).finished
  t.ok(performance.now() - start < 60_000)
  t.match(await result(sha), /^success/)
  const [, run = ''] = /run (\S+)\./.exec(stdout) ?? []
  t.strictSame(findProcesses({ run }), [])
})

t.test('one that hides keeps its output open in vain', async (t) => {
  const mark = `100${process.pid}`
  const sha = push('main', `(setsid env --ignore-environment sleep ${mark} &) ; sleep 0.2`)
  await work(['--once']).finished
  t.match(await result(sha), /^success/)
  // It escapes: only another user or a container prevents that.
  const hidden = readdirSync('/proc').filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `sleep\0${mark}\0`
    } catch {
      return false
    }
  })
  for (const pid of hidden) process.kill(Number(pid), 'SIGKILL')
})

t.test('names of branches are data', async (t) => {
  const names = ['-x', '--upload-pack=touch', '$(touch$IFS-pwned)', 'a"b\'c;d&e|f', 'ü/🚀']
  const base = push('main', 'printf "%s\\n" "<$COMMIT_STATUS_BRANCH>"')
  const shas = names.map((name) => {
    const sha = git(path, 'commit-tree', '-p', base, '-m', name, `${base}^{tree}`)
    git(path, 'update-ref', `refs/heads/${name}`, sha)
    return sha
  })
  const { code, stdout } = await work(['--once']).finished
  t.equal(code, 0)
  for (const name of names) t.match(stdout, `<${name}>\n`)
  for (const sha of shas) t.match(await result(sha), /^success/)
})

t.test('the description is what the server accepts', async (t) => {
  const name = 'x'.repeat(3_000)
  const sha = push('main', `printf '%s' '<testcase name="${name}"><failure/></testcase>' > r.xml; exit 1`)
  await work(['--once', '--junit', 'r.xml']).finished
  t.match(await result(sha), /^failure: 1 of 1 failed/)
})
