import fc from 'fast-check'
import type { Test } from 'tap'
import { asAdministrator } from '../../helpers/changes.ts'
import { createCommits, git } from '../../helpers/git.ts'
import { addReport } from '../../helpers/records.ts'
import type { TestServer } from '../../helpers/server.ts'
import { basic } from '../client.ts'
import { beginRpc, emptyPack, pushBody } from '../raw.ts'

const REFS = [
  ...['refs/heads/main', 'refs/heads/free', 'refs/heads/refs/tags/v1', 'refs/notes/n'],
  ...['refs/tags/v1', 'refs/tags/v/2', 'refs/tags/V1', 'refs/tags/free'],
]

/**
 * Makes random pushes and compares the refs after each with what the rules say, written down
 * plainly. Returns how many were tried.
 */
export async function tryRandomPushes(
  t: Test,
  server: TestServer,
  objectFormat: 'sha1' | 'sha256',
  count: number,
  seed: number,
) {
  const { store } = server
  const name = `model-${objectFormat}`
  const NONE = '0'.repeat(objectFormat === 'sha1' ? 40 : 64)
  const pack = emptyPack(objectFormat)
  const authorization = basic('x', await server.createToken('owner'))
  await server.createRepository(`owner/${name}`, { objectFormat, commits: 0 })
  const repository = await store.repositories.get('owner', name)
  const { path } = repository
  const commits = createCommits(path, 4, 'all')
  git(path, 'update-ref', 'refs/kept/all', commits.at(-1) ?? '')
  git(path, 'update-ref', '-d', 'refs/heads/all')
  const identity = ['-c', 'user.name=x', '-c', 'user.email=x']
  /** The commit of each object; a tree has none. */
  const commitOf = new Map<string, string>(commits.map((sha) => [sha, sha]))
  for (const [index, sha] of commits.entries()) {
    git(path, ...identity, 'tag', '-m', 'x', `t${index}`, sha)
    git(path, ...identity, 'tag', '-m', 'x', `n${index}`, `t${index}`)
    for (const tag of [`t${index}`, `n${index}`]) {
      const id = git(path, 'rev-parse', tag)
      commitOf.set(id, sha)
      git(path, 'update-ref', `refs/kept/${tag}`, id)
      git(path, 'tag', '-d', tag)
    }
  }
  const tree = git(path, 'rev-parse', `${commits[0]}^{tree}`)
  const passed = new Set(commits.slice(1, 3))
  for (const sha of passed) await addReport({ store, repositoryId: repository.id, sha }, 'ci')
  for (const refPattern of ['main', 'refs/tags/v*'])
    await asAdministrator(store).rules.set(repository, { refPattern, required: ['ci'], bypass: [] })

  /** The rule. What git itself refuses is not allowed either. */
  const isAllowed = (ref: string, old: string, id: string): boolean => {
    const commit = commitOf.get(id)
    if (ref.startsWith('refs/tags/v')) return old === NONE && commit !== undefined && passed.has(commit)
    if (ref === 'refs/heads/main')
      return commit === id && passed.has(id) && (old === NONE || commits.indexOf(id) >= commits.indexOf(old))
    return !ref.startsWith('refs/heads/') || id === NONE || commit === id
  }
  const refsNow = () => {
    const lines = git(path, 'for-each-ref', '--format=%(refname) %(objectname)').split('\n')
    return new Map(lines.map((line) => [line.split(' ')[0] ?? '', line.split(' ')[1] ?? '']))
  }

  const pushes = fc.record({
    refs: fc.uniqueArray(fc.constantFrom(...REFS), { minLength: 1, maxLength: 5 }),
    ids: fc.array(fc.constantFrom(NONE, tree, ...commitOf.keys()), { minLength: 5, maxLength: 5 }),
    isAtomic: fc.boolean(),
  })
  let tried = 0
  for (const { refs, ids, isAtomic } of fc.sample(pushes, { numRuns: count, seed })) {
    const before = refsNow()
    const updates = refs.map((ref, index) => ({ ref, old: before.get(ref) ?? NONE, id: ids[index] ?? NONE }))
    const changes = updates.filter(({ old, id }) => old !== id)
    tried += 1
    if (changes.length === 0) continue
    const { request, answer } = beginRpc(`${server.url}/owner/${name}.git`, 'git-receive-pack', authorization)
    const capabilities = ` report-status object-format=${objectFormat}${isAtomic ? ' atomic' : ''}`
    const isDeletion = changes.every(({ id }) => id === NONE)
    const lines = changes.map(({ ref, old, id }) => `${old} ${id} ${ref}`)
    request.end(pushBody(lines, `${capabilities} delete-refs`, isDeletion ? Buffer.alloc(0) : pack))
    const { body } = await answer

    const allowed = changes.filter(({ ref, old, id }) => isAllowed(ref, old, id))
    const wanted = new Map(before)
    for (const { ref, id } of isAtomic && allowed.length < changes.length ? [] : allowed)
      if (id === NONE) wanted.delete(ref)
      else wanted.set(ref, id)
    const after = refsNow()
    const differences = REFS.filter((ref) => after.get(ref) !== wanted.get(ref))
    if (differences.length > 0)
      t.fail(
        `${lines.join(', ')}${isAtomic ? ', atomic' : ''}: ${differences.join()} differ; ${body.toString('latin1')}`,
      )
  }
  return tried
}
