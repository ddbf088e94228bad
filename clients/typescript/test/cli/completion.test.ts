import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { suggest } from '../../src/cli/help/suggest.ts'
import { call } from '../helpers/command-line.ts'

const run = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'completion-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

/** Runs a shell, and returns what it prints; null if it is not installed. */
async function runShell(file: string, ...args: string[]): Promise<string | null> {
  try {
    const { stdout, stderr } = await run(file, args, { env: { ...process.env, HOME: folder } })
    t.equal(stderr, '')
    return stdout
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

for (const shell of ['bash', 'zsh', 'fish']) {
  const { code, stdout } = await call(['completion', shell], {})
  t.equal(code, 0)
  writeFileSync(join(folder, shell), stdout)
}

t.test('bash offers what fits the place', async (t) => {
  const offered = async (...words: string[]) => {
    const script = `. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _commit-status; echo "\${COMPREPLY[@]}"`
    return (
      await runShell('bash', '-c', script, 'bash', join(folder, 'bash'), 'commit-status', ...words)
    )?.trim()
  }
  t.match(
    await offered(''),
    /^--help --version help report run work get wait last-passed branches land gate completion$/,
  )
  t.equal(await offered('r'), 'report run')
  t.match(await offered('wait', '--'), /^--help --require --only --branch .*--json --repo --sha --url$/)
  t.equal(await offered('wait', '--require', ''), '', 'a value that nobody else knows')
  t.equal(await offered('completion', ''), '--help bash zsh fish')
  t.equal(await offered('run', '--context', 'a', '--', '--'), '', 'the words of the command')
})

t.test('zsh reads its script, if it is installed', async (t) => {
  const script = `autoload -U compinit; compinit -u -D; . ${folder}/zsh; whence -w _commit-status`
  t.match((await runShell('zsh', '-f', '-c', script)) ?? 'function', /function/)
})

t.test('fish offers what fits the place, if it is installed', async (t) => {
  const offered = async (line: string) => {
    const script = `source ${folder}/fish; complete --do-complete=${JSON.stringify(line)}`
    const output = await runShell('fish', '--no-config', '-c', script)
    return output
      ?.trim()
      .split('\n')
      .map((row) => row.split('\t')[0])
      .sort()
      .join(' ')
  }
  const isMissing = (await offered('commit-status ')) === undefined
  t.match(isMissing ? 'report run' : await offered('commit-status r'), /^report run$/)
  t.match(isMissing ? '--sha --stalled' : await offered('commit-status wait --s'), '--sha')
  t.match(isMissing ? 'fish' : await offered('commit-status completion f'), /fish/)
})

t.test('a typing error gets the word that is meant', async (t) => {
  const words = ['report', 'run', 'get', 'wait', 'last-passed', 'branches', 'land', 'gate', 'completion']
  for (const [typed, meant] of [
    ['repor', 'report'],
    ['repport', 'report'],
    ['rpeort', 'report'],
    ['WAIT', 'wait'],
    ['wiat', 'wait'],
    ['compeltion', 'completion'],
    ['rnu', 'run'],
  ] as const)
    t.equal(suggest(typed, words), `; did you mean ${meant}?`, typed)
  for (const typed of ['', 'frobnicate', 'x', 'status', 'r'.repeat(10_000)])
    t.equal(suggest(typed, words), '', typed.slice(0, 20))
})
