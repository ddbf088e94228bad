import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openUnchecked } from '../../../src/git/opened-repository.ts'
import { readRefFiles, readRefIds } from '../../../src/git/refs/ref-ids.ts'
import { git, gitWith, replaceGit } from '../../helpers/git.ts'
import { createSample, type SampleRepository } from '../sample-repository.ts'

/** Returns what git says of refs, decoded as Latin-1. */
function listed({ path }: SampleRepository): Map<string, string> {
  const lines = git(path, 'for-each-ref', '--format=%(refname) %(objectname)').split('\n')
  return new Map(lines.map((line) => line.split(' ')).map(([ref = '', id = '']) => [ref, id]))
}

/** Writes refs with git, sorted in `packed-refs`. */
function pack({ path }: SampleRepository, names: readonly string[], id: string): void {
  gitWith(path, names.map((name) => `create ${name} ${id}\n`).join(''), 'update-ref', '--stdin')
  git(path, 'pack-refs', '--all', '--prune')
}

for (const objectFormat of ['sha1', 'sha256'] as const) {
  t.test(`${objectFormat}: refs are read as git reads them, without git`, async (t) => {
    const sample = await createSample(t, objectFormat)
    const { path } = sample
    const [first = '', second = '', third = ''] = [1, 2, 3].map((count) => sample.commit(`${count}`))
    const tag = sample.tag(first)
    // Several times what is searched as text, with ids of tags and of what they name.
    const many = Array.from({ length: 3_000 }, (_, index) => `refs/tags/v${index}`)
    pack(sample, many, tag)
    pack(sample, ['refs/heads/packed', 'refs/heads/both', 'refs/heads/a', 'refs/zzz/last'], first)
    git(path, 'update-ref', 'refs/heads/both', second)
    git(path, 'update-ref', 'refs/heads/folder/loose', third)
    git(path, 'update-ref', 'refs/heads/\u00fc', third)
    git(path, 'symbolic-ref', 'refs/heads/symbolic', 'refs/heads/packed')
    git(path, 'symbolic-ref', 'refs/heads/chain', 'refs/heads/symbolic')
    git(path, 'symbolic-ref', 'refs/heads/dangling', 'refs/heads/none')
    git(path, 'symbolic-ref', 'refs/heads/circle', 'refs/heads/circle')
    symlinkSync('refs/heads/folder/loose', join(path, 'refs/heads/link'))
    symlinkSync('folder/loose', join(path, 'refs/heads/file-link'))
    writeFileSync(join(path, 'refs/heads/broken'), 'nothing\n')
    writeFileSync(join(path, 'refs/heads/empty'), '')
    writeFileSync(join(path, 'refs/heads/x.lock'), `${first}\n`)

    const expected = listed(sample)
    t.ok(expected.size > many.length + 8)
    const names = [
      ...expected.keys(),
      ...['dangling', 'circle', 'broken', 'empty', 'x.lock', 'none', 'folder', '', 'packed/x', '.', '..'].map(
        (name) => `refs/heads/${name}`,
      ),
      ...['refs/tags/v', 'refs/tags/v3000', 'refs/0', 'refs/zzzz', 'refs/../refs/heads/a', 'refs//heads/a'],
      `refs/heads/${'x'.repeat(300)}`,
      `refs/${'x/'.repeat(2_100)}x`,
    ].map((name) => Buffer.from(name).toString('latin1'))
    replaceGit(t, 'exit 128')
    const read = async (names: string[]) => readRefIds(openUnchecked(path), names, {})
    const decoded = new Map(
      [...(await read(names))].map(([name, id]) => [Buffer.from(name, 'latin1').toString(), id]),
    )
    t.same(new Map([...decoded].sort()), new Map([...expected].sort()))
    for (const name of ['refs/heads/a', 'refs/tags/v0', 'refs/tags/v2999', 'refs/zzz/last', 'refs/none'])
      t.equal((await read([name])).get(name), expected.get(name), name)
    t.equal((await read([])).size, 0)
  })
}

t.test('what is not sorted is left to git', async (t) => {
  const sample = await createSample(t)
  const id = sample.commit()
  const file = join(sample.path, 'packed-refs')
  for (const header of ['# pack-refs with: peeled \n', '']) {
    writeFileSync(file, `${header}${id} refs/heads/z\n${id} refs/heads/a\n`)
    const ids = await readRefIds(openUnchecked(sample.path), ['refs/heads/a', 'refs/heads/none'], {})
    t.same([...ids], [['refs/heads/a', id]])
  }
})

t.test('a ref that git packs meanwhile is found', async (t) => {
  const sample = await createSample(t)
  const { path } = sample
  const id = sample.commit()
  git(path, 'update-ref', 'refs/heads/loose', id)
  const { signal } = new AbortController()
  // Asked before each ref is read.
  signal.throwIfAborted = () => git(path, 'pack-refs', '--all', '--prune')
  const ids = await readRefFiles(path, new Set(['refs/heads/loose']), signal)
  t.same([...(ids ?? [])], [['refs/heads/loose', id]])
})

t.test('refs that cannot be read are unavailable, not missing', async (t) => {
  const { path } = await createSample(t)
  symlinkSync('/', join(path, 'packed-refs'))
  await t.rejects(readRefIds(openUnchecked(path), ['refs/heads/a'], {}), { name: 'RepositoryUnavailable' })
  await t.rejects(
    readRefIds(openUnchecked(path), ['refs/heads/a'], { signal: AbortSignal.abort(new Error('gone')) }),
    /gone/,
  )
})
