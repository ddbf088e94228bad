import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { RepositoryUnavailable } from '../../../src/git/errors.ts'
import { openRepository } from '../../../src/git/opened-repository.ts'
import {
  followFirstBranch,
  followsDeletions,
  setDefaultBranch,
  setFollowing,
} from '../../../src/git/refs/default-branch.ts'
import { readHeadState } from '../../../src/git/refs/head.ts'
import { recordFileCalls } from '../../helpers/file-calls.ts'
import { replaceGit } from '../../helpers/git.ts'
import { createSample } from '../sample-repository.ts'

t.test('a chosen branch stays even if git cannot tell that it was chosen', async (t) => {
  const sample = await createSample(t)
  sample.git('update-ref', 'refs/heads/other', sample.commit())
  const opened = await openRepository(sample)
  const follow = () => followFirstBranch(opened, () => true)
  await setDefaultBranch(opened, 'later', true, async () => {})
  await follow()
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/later')

  await t.test('because it fails', async (t) => {
    replaceGit(t, 'case "$*" in *"config --get"*) exit 128; esac; exec "$git" "$@"')
    await t.rejects(follow(), RepositoryUnavailable)
  })
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/later')
})

t.test('while HEAD is recorded, neither git runs nor the disk works', async (t) => {
  const sample = await createSample(t)
  const opened = await openRepository(sample)
  const config = () => sample.git('config', 'commitstatus.defaultbranch')
  await setDefaultBranch(opened, 'first', true, async () => {})
  const calls = await recordFileCalls(t, sample.path)
  const records: unknown[] = []
  await setDefaultBranch(opened, 'second', true, async (from, to) => {
    records.push([from, to])
    t.equal(config(), 'second', 'git has ended')
    t.match(calls.splice(0), [/^sync HEAD.new-/, 'sync config', 'sync .'])
    t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/first')
  })
  t.match(calls.splice(0), [/^rename HEAD.new-[0-9a-f]{16} HEAD$/, 'sync .'], 'it is on disk at the end')
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/second')
  t.same(records, [['first', 'second']])

  await t.rejects(
    setDefaultBranch(opened, 'third', true, async () => {
      throw new Error('no right')
    }),
    { message: 'no right' },
  )
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/second')
  t.equal(config(), 'second', 'nothing is left of a refused change')
  t.notMatch(readdirSync(sample.path).join(), /HEAD\.|lock/)
})

for (const writer of ['the server', 'git'] as const)
  t.test(`of changes at the same time, each follows the one before: ${writer} writes HEAD`, async (t) => {
    const sample = await createSample(t)
    if (writer === 'git') {
      mkdirSync(join(sample.path, 'reftable'))
      // As if git wrote such a table, of which HEAD.lock is no lock. Not every git supports them.
      replaceGit(
        t,
        `for last; do :; done; case "$*" in *refs/heads/never) exit 128;;
          *"symbolic-ref HEAD refs/"*) echo "ref: $last" >'${sample.path}/HEAD';; *) exec "$git" "$@";; esac`,
      )
    }
    const opened = await openRepository(sample)
    // A busy machine may take longer than the two seconds for which a change waits.
    const { now } = performance
    t.capture(performance, 'now', () => now.call(performance) / 30)
    const head = () => sample.git('symbolic-ref', 'HEAD').replace('refs/heads/', '')
    let last: string | null = head()
    await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        setDefaultBranch(opened, `b${index}`, false, async (from, to) => {
          t.same([from, from], [last, head()])
          await setTimeout(5)
          last = to
        }),
      ),
    )
    t.equal(head(), last)
    if (writer !== 'git') return

    const records: unknown[] = []
    await t.rejects(
      setDefaultBranch(opened, 'never', false, async (...names) => {
        records.push(names)
      }),
      { name: 'GitFailed' },
    )
    const taken = [
      [last, 'never'],
      ['never', last],
    ]
    t.same([records, head()], [taken, last], 'what git did not do is taken back')
  })

t.test('that HEAD follows pushes is taken back if git does not store it', async (t) => {
  const sample = await createSample(t)
  replaceGit(t, 'case "$*" in *"config commitstatus.followpushes"*) exit 128; esac; exec "$git" "$@"')
  const opened = await openRepository(sample)
  const records: unknown[] = []
  await t.rejects(
    setFollowing(opened, true, async (...states) => {
      records.push(states)
    }),
    { name: 'GitFailed' },
  )
  const taken = [
    [false, true],
    [true, false],
  ]
  t.same([records, await followsDeletions(opened)], [taken, false])
})

t.test('HEAD follows a branch if none was chosen', async (t) => {
  const sample = await createSample(t)
  sample.git('update-ref', 'refs/heads/other', sample.commit())
  await followFirstBranch(await openRepository(sample), () => true)
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/other')
})

t.test('no process starts where HEAD leads to a commit, also if its branch is packed', async (t) => {
  const sample = await createSample(t)
  const head = sample.git('symbolic-ref', 'HEAD')
  sample.git('update-ref', head, sample.commit())
  sample.git('pack-refs', '--all')
  const opened = await openRepository(sample)
  replaceGit(t, 'exit 128')
  t.equal(await followFirstBranch(opened, () => true), null)
})

t.test('HEAD stays at a branch whose file is damaged', async (t) => {
  const sample = await createSample(t)
  const head = sample.git('symbolic-ref', 'HEAD')
  sample.git('update-ref', 'refs/heads/other', sample.commit())
  const opened = await openRepository(sample)
  for (const text of ['', 'garbage\n', `${'1'.repeat(40)}\n`]) {
    writeFileSync(join(sample.path, head), text)
    t.equal(await followFirstBranch(opened, () => true), null, JSON.stringify(text))
  }
  rmSync(join(sample.path, head))
  mkdirSync(join(sample.path, head))
  t.same(await followFirstBranch(opened, () => true), { from: 'main', to: 'other' }, 'a folder is no branch')
})

t.test('HEAD leads to no file outside of the repository', async (t) => {
  const { path } = await createSample(t)
  writeFileSync(join(path, 'HEAD'), 'ref: refs/heads/../../../outside\n')
  t.equal((await readHeadState(path, 'shared')).paths.at(-1), join(path, 'HEAD'))
  writeFileSync(join(path, 'HEAD'), 'ref: refs/heads/within\n')
  t.equal((await readHeadState(path, 'shared')).paths.at(-1), join(path, 'refs/heads/within'))
})

t.test('HEAD stays where another push has moved it meanwhile', async (t) => {
  const sample = await createSample(t)
  for (const name of ['master', 'other']) sample.git('update-ref', `refs/heads/${name}`, sample.commit())
  let asked = 0
  await followFirstBranch(await openRepository(sample), () => {
    if (asked++ === 0) sample.git('symbolic-ref', 'HEAD', 'refs/heads/other')
    return true
  })
  t.equal(sample.git('symbolic-ref', 'HEAD'), 'refs/heads/other')
})
