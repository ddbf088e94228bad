import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import t from 'tap'
import { temporaryFolder } from '../helpers/databases.ts'
import { minimalEnvironment } from '../helpers/process.ts'

const run = promisify(execFile)
const scriptFor = (shell: string) =>
  execFileSync(process.execPath, ['src/cli/main.ts', 'completion', shell], { encoding: 'utf8' })

t.test('bash completes what is typed', async (t) => {
  const folder = temporaryFolder(t)
  const start = `${scriptFor('bash')}\ncommit-status-admin() { echo "called: $*"; }\nPS1=; cd /var\n`
  writeFileSync(join(folder, 'start'), start)
  const bash = spawn(
    'script',
    ['--quiet', '--command', `bash --noprofile --rcfile ${folder}/start -i`, '/dev/null'],
    {
      env: { ...minimalEnvironment(), TERM: 'dumb' },
    },
  )
  const lines = [
    'repo vis\talice/rocket pri\t',
    '--env-f\t/etc/servi\ttoken cre\talice --exp\t90d',
    'restore li\t --loc\t',
  ]
  bash.stdin.write(`${lines.map((line) => `commit-status-admin ${line}\n`).join('')}exit\n`)
  const [output] = await Promise.all([text(bash.stdout), once(bash, 'close')])
  t.same(output.match(/(?<=called: ).*\w/g), [
    'repo visibility alice/rocket private',
    '--env-file /etc/services token create alice --expires 90d',
    'restore lib/ --lock-users',
  ])
})

t.test('bash offers what fits the place', async (t) => {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'completion'), scriptFor('bash'))
  const offered = async (...words: string[]) => {
    const script = `. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _commit-status-admin; echo "\${COMPREPLY[@]}"`
    const args = ['-c', script, 'bash', join(folder, 'completion'), 'commit-status-admin', ...words]
    const { stdout, stderr } = await run('bash', args)
    t.equal(stderr, '')
    return stdout.trim()
  }
  t.match(await offered(''), /^--env-file --version --help user group repo .*completion$/)
  t.equal(await offered('repo', 'de'), 'default-branch delete')
  t.equal(await offered('repo', 'access', 'alice/rocket', 'bob', 'r'), 'read')
  t.equal(await offered('repo', 'create', 'a/b', '--object-format', ''), 'sha1 sha256')
  t.equal(await offered('token', 'create', 'a', '--name', ''), '', 'a value that nobody else knows')
  t.equal(await offered('--env-file', ''), '', 'a file, which bash completes')
  t.match(
    await offered('audit', 'list', '--'),
    /^--env-file .*--since --user --repo --token --json --follow$/,
  )
})

t.test('zsh reads its script, if it is installed', async (t) => {
  const script = scriptFor('zsh')
  t.match(script, /^#compdef commit-status-admin\n/)
  const file = join(temporaryFolder(t), '_commit-status-admin')
  writeFileSync(file, script)
  const read = run('zsh', [
    '-f',
    '-c',
    `autoload -U compinit; compinit -u -D; . ${file}; whence -w _commit-status-admin`,
  ])
  const { stdout } = await read.catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return { stdout: 'function' }
    throw error
  })
  t.match(stdout, /function/)
})
