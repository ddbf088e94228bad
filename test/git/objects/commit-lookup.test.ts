import { spawn } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { CommitLookup, type CommitLookupOptions } from '../../../src/git/objects/commit-lookup.ts'
import { git } from '../../helpers/git.ts'
import { until } from '../../helpers/until.ts'
import { createSample, readersOf, SampleRepository, temporaryFolder } from '../sample-repository.ts'

function open(t: Test, options?: CommitLookupOptions) {
  const lookup = new CommitLookup(options)
  t.teardown(() => lookup.close())
  return lookup
}

for (const objectFormat of ['sha1', 'sha256'] as const) {
  t.test(`${objectFormat}: only commits are found`, async (t) => {
    const sample = await createSample(t, objectFormat)
    const lookup = open(t)
    const commit = sample.commit()
    t.equal(await lookup.has(sample, commit), true, 'an unreachable commit')
    t.equal(await lookup.has(sample, sample.blob('blob')), false, 'a blob')
    t.equal(await lookup.has(sample, sample.tree()), false, 'a tree')
    t.equal(await lookup.has(sample, sample.tag(commit)), false, 'a tag object')
    t.equal(await lookup.has(sample, '1'.repeat(commit.length)), false, 'nothing')
  })

  t.test(`${objectFormat}: anything but a full lower-case id is rejected without git`, async (t) => {
    const sample = await createSample(t, objectFormat)
    const lookup = open(t)
    const commit = sample.commit()
    sample.git('update-ref', 'refs/heads/main', commit)
    const others = [
      '',
      'HEAD',
      'main'.padEnd(commit.length, '/'),
      commit.toUpperCase(),
      commit.slice(1),
      `${commit}0`,
      `${commit}\n`,
      `\n${commit.slice(1)}`,
      `${commit.slice(0, -1)}é`,
      commit.slice(0, 40) === commit ? commit.padEnd(64, '0') : commit.slice(0, 40),
    ]
    for (const sha of others) t.equal(await lookup.has(sample, sha), false, JSON.stringify(sha))
    t.equal(lookup.size, 0, 'no process was started')
  })

  t.test(`${objectFormat}: a branch named like an id never shadows it`, async (t) => {
    const sample = await createSample(t, objectFormat)
    const lookup = open(t)
    const commit = sample.commit()
    const blob = sample.blob('blob')
    const unknown = 'a'.repeat(commit.length)
    for (const name of [unknown, blob]) sample.git('update-ref', `refs/heads/${name}`, commit)
    sample.git('update-ref', `refs/heads/${commit}`, sample.commit('other'))
    t.equal(await lookup.has(sample, unknown), false)
    t.equal(await lookup.has(sample, blob), false)
    t.equal(await lookup.has(sample, commit), true)
  })

  t.test(`${objectFormat}: replacement refs are ignored`, async (t) => {
    const sample = await createSample(t, objectFormat)
    const lookup = open(t)
    const commit = sample.commit()
    const blob = sample.blob('blob')
    const other = sample.commit('other')
    sample.git('replace', '--force', blob, other)
    sample.git('replace', '--force', commit, sample.blob('another blob'))
    t.equal(sample.git('cat-file', '-t', blob), 'commit', 'git itself follows the replacement')
    t.equal(await lookup.has(sample, blob), false)
    t.equal(await lookup.has(sample, commit), true)
  })
}

t.test(
  'an id of another format than the repository’s is not looked up by its beginning or as a name',
  async (t) => {
    const sha1 = await createSample(t, 'sha1')
    const sha256 = await createSample(t, 'sha256')
    const lookup = open(t)
    const name = 'b'.repeat(64)
    sha1.git('update-ref', `refs/heads/${name}`, sha1.commit())
    t.equal(await lookup.has(sha1, name), false, 'rejected by its length')
    t.equal(await lookup.has(sha256, sha256.commit().slice(0, 40)), false)
    t.equal(
      await lookup.has({ ...sha1, id: -1, objectFormat: 'sha256' }, name),
      false,
      'rejected by the answer of git',
    )
    const prefix = sha256.commit().slice(0, 40)
    t.equal(await lookup.has({ ...sha256, id: -2, objectFormat: 'sha1' }, prefix), false)
  },
)

t.test('pushed objects are found at once, loose or packed, also after a repack', async (t) => {
  const source = await createSample(t)
  const sample = await createSample(t)
  const lookup = open(t)
  const push = (unpackLimit: number): string => {
    const commit = source.commit(`limit ${unpackLimit}`)
    sample.git('config', 'receive.unpackLimit', String(unpackLimit))
    source.git('push', '--quiet', '--force', sample.path, `${commit}:refs/heads/main`)
    return commit
  }
  const packs = () =>
    readdirSync(join(sample.path, 'objects', 'pack')).filter((name) => name.endsWith('.pack'))
  const unpushed = source.commit('unpushed')
  t.equal(await lookup.has(sample, unpushed), false)
  const commits: string[] = []
  for (const unpackLimit of [100, 1]) {
    const commit = push(unpackLimit)
    t.equal(packs().length, unpackLimit === 1 ? 1 : 0)
    t.equal(await lookup.has(sample, commit), true)
    sample.git('update-ref', `refs/heads/limit-${unpackLimit}`, commit)
    commits.push(commit)
  }
  for (const command of ['repack -a -d --quiet', 'pack-refs --all', 'gc --prune=now --quiet']) {
    sample.git(...command.split(' '))
    t.same(await Promise.all(commits.map((commit) => lookup.has(sample, commit))), [true, true], command)
  }
  t.equal(await lookup.has(sample, unpushed), false)
})

t.test('objects of a push are not found before the push is accepted', async (t) => {
  const source = await createSample(t)
  const sample = await createSample(t)
  const lookup = open(t)
  const folder = temporaryFolder(t)
  const [started, go] = [join(folder, 'started'), join(folder, 'go')]
  mkdirSync(join(sample.path, 'hooks'))
  const hook = `#!/bin/sh\n: > '${started}'\nwhile [ ! -e '${go}' ]; do sleep 0.1; done\n`
  writeFileSync(join(sample.path, 'hooks', 'pre-receive'), hook, { mode: 0o755 })
  const commit = source.commit()
  const push = spawn('git', ['-C', source.path, 'push', '--quiet', sample.path, `${commit}:refs/heads/main`])
  const pushed = new Promise((resolve) => push.on('close', resolve))
  await until(() => existsSync(started))
  t.equal(await lookup.has(sample, commit), false)
  writeFileSync(go, '')
  t.equal(await pushed, 0)
  t.equal(await lookup.has(sample, commit), true)
})

t.test(
  'what a gc removed is gone at once, when its pack or its loose file was the repository’s own',
  async (t) => {
    const sample = await createSample(t)
    const lookup = open(t)
    const loose = sample.commit('loose')
    const packed = sample.commits(3)
    t.same(await Promise.all([loose, ...packed].map((commit) => lookup.has(sample, commit))), [
      true,
      true,
      true,
      true,
    ])
    sample.git('update-ref', '-d', 'refs/heads/main')
    sample.git('gc', '--prune=now', '--quiet')
    t.same(await Promise.all([loose, ...packed].map((commit) => lookup.has(sample, commit))), [
      false,
      false,
      false,
      false,
    ])
  },
)

t.test(
  'objects of alternates count; one that is removed there counts until the process is renewed',
  async (t) => {
    const base = await createSample(t)
    const sample = await createSample(t)
    mkdirSync(join(sample.path, 'objects', 'info'), { recursive: true })
    writeFileSync(join(sample.path, 'objects', 'info', 'alternates'), `${join(base.path, 'objects')}\n`)
    const [commit = ''] = base.commits(3)
    const lookup = open(t, { maxAge: 300 })
    t.equal(await lookup.has(sample, commit), true)
    const [first] = readersOf(sample.path)
    base.git('update-ref', '-d', 'refs/heads/main')
    base.git('gc', '--prune=now', '--quiet')
    await until(async () => !(await lookup.has(sample, commit)))
    t.not(readersOf(sample.path)[0], first, 'by another process')
  },
)

t.test('a process ends after its lifetime', async (t) => {
  const sample = await createSample(t)
  const lookup = open(t, { maxAge: 50 })
  await lookup.has(sample, sample.commit())
  t.equal(lookup.size, 1)
  await until(() => lookup.size === 0)
  t.equal(await lookup.has(sample, sample.commit()), true, 'another process is started when needed')
})

t.test('a repository that replaces another one at the same path has its own objects', async (t) => {
  const first = await createSample(t)
  const lookup = open(t)
  const commit = first.commit('first')
  t.equal(await lookup.has(first, commit), true)
  rmSync(first.path, { recursive: true })
  git(join(first.path, '..'), 'init', '--quiet', '--bare', first.path)
  const second = new SampleRepository(first.path, 'sha1')
  t.equal(await lookup.has(second, commit), false)
  t.equal(await lookup.has(second, second.commit('second')), true)
})

t.test('a repository of another owner can be read', async (t) => {
  const sample = await createSample(t)
  const commit = sample.commit()
  if (process.getuid?.() === 0) chownSync(sample.path, 12345, 12345)
  t.equal(await open(t).has(sample, commit), true)
})

t.test('a checkout without its work tree can be read', async (t) => {
  const sample = await createSample(t)
  sample.git('config', 'core.bare', 'false')
  const commit = sample.commit()
  sample.git('config', 'core.worktree', '../gone/away')
  t.equal(await open(t).has(sample, commit), true)
})

t.test('missing objects of a partial clone are not fetched and not found', async (t) => {
  const source = await createSample(t)
  const left = source.blob('content')
  const commit = source.commit()
  source.git('update-ref', 'refs/heads/main', commit)
  source.git('config', 'uploadpack.allowFilter', 'true')
  const path = join(temporaryFolder(t), 'partial.git')
  git(source.path, 'clone', '--quiet', '--bare', '--filter=blob:none', `file://${source.path}`, path)
  const sample = new SampleRepository(path, 'sha1')
  const lookup = open(t)
  const asked = [commit, left, source.commit('later'), left, commit]
  const found = await Promise.all(asked.map((sha) => lookup.has(sample, sha)))
  t.same(found, [true, false, false, false, true])
  renameSync(source.path, `${source.path}.away`)
  t.equal(await lookup.has(sample, left), false)
})

t.test('thousands of concurrent lookups each get their own answer', async (t) => {
  const sample = await createSample(t)
  const commits = sample.commits(1000)
  const blob = sample.blob('blob')
  const lookup = open(t)
  const asked = commits.flatMap((commit, i) => [commit, blob, i.toString(16).padStart(40, '0')])
  const found = await Promise.all(asked.map((sha) => lookup.has(sample, sha)))
  t.same(
    found,
    commits.flatMap(() => [true, false, false]),
  )
  t.equal(lookup.size, 1)
})
