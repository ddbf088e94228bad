import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { explainOwnerProblem, findOwnerProblem } from '../../src/git/repository-owner.ts'
import { createSample } from './sample-repository.ts'

const self = process.geteuid?.() ?? 0
const NOBODY = 65_534
/** An account that owns nothing. */
const OTHER = 4711

t.test('the configuration is writable by the account itself and root alone', async (t) => {
  const { path } = await createSample(t)
  const config = join(path, 'config')
  const worktree = join(path, 'config.worktree')
  writeFileSync(worktree, '', { mode: 0o600 })
  t.equal(await findOwnerProblem(path), null)
  if (self === 0) t.equal(await findOwnerProblem(path, NOBODY), null, 'root owns it')

  for (const [file, mode] of [
    [config, 0o664],
    [config, 0o646],
    [worktree, 0o664],
    [path, 0o775],
  ] as const) {
    const before = statSync(file).mode & 0o777
    chmodSync(file, mode)
    const problem = await findOwnerProblem(path)
    t.equal(problem?.reason, `other accounts can write ${file}`)
    execFileSync('sh', ['-c', problem?.command ?? ''])
    t.equal(await findOwnerProblem(path), null, 'the command solves it')
    chmodSync(file, before)
  }
  rmSync(config)
  t.equal(await findOwnerProblem(path), null, 'git needs no configuration')
  rmSync(path, { recursive: true })
  t.equal(await findOwnerProblem(path), null, 'nothing is there')
})

t.test('another account owns the repository or its configuration', async (t) => {
  for (const name of ['.', 'config']) {
    const { path } = await createSample(t)
    const file = join(path, name)
    const config = join(path, 'config')
    // Nobody else than root can give a file away.
    if (self === 0) chownSync(file, NOBODY, NOBODY)
    chmodSync(config, 0o666)
    const problem = await findOwnerProblem(path, OTHER)
    t.match(problem?.reason, / belongs to the account \S+, and other accounts can write /)
    const command = `chown -R ${OTHER} -- '${path}' && chmod go-w -- '${config}'`
    t.equal(problem?.command, command)
    if (problem)
      t.match(explainOwnerProblem(problem, 'a/b', path), `(as root: ${command}), run the service as`)
    if (self !== 0) continue
    t.match(problem?.reason, `${file} belongs to the account nobody, and`)
    execFileSync('sh', ['-c', command])
    t.equal(await findOwnerProblem(path, OTHER), null, 'the command solves it')
  }
})
