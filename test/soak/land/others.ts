import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import type { LandingPlace } from '../../../clients/typescript/test/helpers/landing.ts'
import { basic, tryGit } from '../../git-http/client.ts'
import { git, gitWith } from '../../helpers/git.ts'
import { addReport } from '../../helpers/records.ts'
import { startContinuousIntegration } from './continuous-integration.ts'
import { checkTips, landHere, startRecorded, times } from './many.ts'

/**
 * Lands beside tickets that are forged with the oldest names, and refreshed without end, removed,
 * or plain nonsense.
 */
export async function landBesideForgedTickets(t: Test): Promise<void> {
  const LANDERS = 4
  const place = await startRecorded(t)
  const ci = startContinuousIntegration(t, place, () => 200)
  const grace = 4_000
  const forge = () => {
    const blob = gitWith(place.path, `${Math.random()}`, 'hash-object', '-w', '--stdin')
    for (const name of ['00000000T000000000Z-000000000000', '20200101T000000000Z-ffffffffffff', 'nonsense'])
      git(place.path, 'update-ref', `refs/landing/main/${name}`, blob)
    // Also removes the ticket of somebody who waits.
    const [own] = place.leftovers().filter((ref) => /^refs\/landing\/main\/(?!2020)2/.test(ref))
    if (own && Math.random() < 0.2) git(place.path, 'update-ref', '-d', own)
  }
  const timer = setInterval(forge, 500)
  t.teardown(() => clearInterval(timer))
  const base = place.ref('refs/heads/main')
  const ends = await Promise.all(
    Array.from({ length: LANDERS }, async (_, index) => {
      const commit = place.write(base, { [`${index}`]: 'new\n' })
      return landHere(place, commit, { ...times, heartbeat: 1_000, grace })
    }),
  )
  clearInterval(timer)
  for (const { code, stdout, stderr } of ends) assert.equal(code, 0, stdout + stderr)
  t.equal(checkTips(place, ci.passed), LANDERS)
  const longest = Math.max(...ends.map(({ milliseconds }) => milliseconds))
  t.ok(longest > 2 * grace, 'they do wait')
  t.ok(longest < 2 * grace + 60_000, `longest landing ${Math.round(longest)} ms, grace time ${grace} ms`)
}

/** Lands beside people who push to the branch themselves as soon as their commit has passed. */
export async function landBesidePushers(t: Test): Promise<void> {
  const PUSHERS = 20
  const LANDERS = 5
  const place = await startRecorded(t)
  const { server, repository, checkout, token } = place
  const ci = startContinuousIntegration(t, place, () => 200)
  let done = 0
  const push = async (index: number) => {
    for (let attempt = 0; ; attempt++) {
      await setTimeout(Math.random() * 30_000)
      const commit = place.write(place.ref('refs/heads/main'), { [`pusher-${index}`]: `${attempt}\n` })
      const address = `${server.url}/acme/rocket.git`
      const options = { authorization: basic('x', token) }
      const topic = await tryGit(
        checkout,
        ['push', address, `${commit}:refs/heads/topic-${index}-${attempt}`],
        options,
      )
      assert.equal(topic.code, 0, topic.stderr)
      ci.passed.add(commit)
      await addReport({ store: server.store, repositoryId: repository.id, sha: commit }, 'ci/test')
      const { code } = await tryGit(checkout, ['push', address, `${commit}:refs/heads/main`], options)
      if (code === 0) return void done++
    }
  }
  const landing = async (index: number) => {
    for (let count = 0; count < 2; count++) {
      const commit = place.write(place.ref('refs/heads/main'), { [`lander-${index}-${count}`]: 'new\n' })
      const { code, stdout, stderr } = await landHere(place, commit)
      assert.equal(code, 0, stdout + stderr)
      done++
    }
  }
  await Promise.all([
    ...Array.from({ length: PUSHERS }, (_, index) => push(index)),
    ...Array.from({ length: LANDERS }, (_, index) => landing(index)),
  ])
  t.equal(done, PUSHERS + 2 * LANDERS)
  t.equal(checkTips(place, ci.passed), done, 'all moved it')
  t.comment(`${LANDERS * 2} landed with ${ci.runs.length} CI runs, beside ${PUSHERS} pushes`)
}

/** Merges what is not plain text, with SHA-1 and SHA-256. */
export async function landSpecialMerges(t: Test, objectFormat: 'sha1' | 'sha256'): Promise<void> {
  const place: LandingPlace = await startRecorded(t, { objectFormat })
  const ci = startContinuousIntegration(t, place, () => 50)
  const { checkout, path } = place
  const pointer = (digit: string) =>
    `version https://git-lfs.github.com/spec/v1\noid sha256:${digit.repeat(64)}\nsize 5\n`
  const id = (digit: string) => digit.repeat(objectFormat === 'sha1' ? 40 : 64)
  /** Returns a commit with the submodule `lib` at another commit. */
  const moveSubmodule = (parent: string, digit: string) => {
    const entry = `160000 commit ${id(digit)}\tlib\n`
    const files = git(checkout, 'ls-tree', parent)
      .split('\n')
      .filter((line) => !line.endsWith('\tlib'))
    const tree = gitWith(checkout, `${files.join('\n')}\n${entry}`, 'mktree', '--missing')
    return git(checkout, 'commit-tree', tree, '-p', parent, '-m', `lib ${digit}`)
  }
  const land = async (commit: string) => landHere(place, commit)
  const setup = moveSubmodule(
    place.write(place.ref('refs/heads/main'), {
      '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
      'x.bin': pointer('1'),
    }),
    '1',
  )
  t.match(await land(setup), { code: 0 })
  const beside = place.write(setup, { 'plain.txt': 'p\n' })
  const moved = moveSubmodule(setup, '2')
  const largeFile = place.write(setup, { 'x.bin': pointer('2') })
  for (const commit of [beside, moved, largeFile]) t.match(await land(commit), { code: 0 })
  const tip = place.ref('refs/heads/main')
  t.match(git(path, 'ls-tree', tip, 'lib'), id('2'), 'the merge has the submodule of one side')
  t.equal(`${git(path, 'show', `${tip}:x.bin`)}\n`, pointer('2'), 'and the pointer of the other')
  const conflicts: [commit: string, file: string][] = [
    [moveSubmodule(setup, '3'), 'lib'],
    [place.write(setup, { 'x.bin': pointer('3') }), 'x.bin'],
    [place.write(setup, { 'plain.txt': 'q\n' }), 'plain.txt'],
  ]
  for (const [commit, file] of conflicts) {
    const { code, stdout } = await land(commit)
    t.match(
      { code, stdout },
      { code: 6, stdout: new RegExp(`^${commit.slice(0, 12)} conflicts .* in ${file}\n$`) },
    )
  }
  t.equal(checkTips(place, ci.passed), 4)
}
