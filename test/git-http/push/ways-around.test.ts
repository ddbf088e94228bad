import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { asAdministrator } from '../../helpers/changes.ts'
import { createCommits, git as gitSync, gitWith } from '../../helpers/git.ts'
import { addReport } from '../../helpers/records.ts'
import { startServer } from '../../helpers/server.ts'
import { basic, commit, createCheckout, git, tryGit } from '../client.ts'
import { beginRpc, packet, pushBody } from '../raw.ts'

const server = await startServer(t)
const { store } = server
const authorization = basic('x', await server.createToken('owner'))
const NONE = '0'.repeat(40)
const IDENTITY = ['-c', 'user.name=x', '-c', 'user.email=x']

type Fixture = Awaited<ReturnType<typeof setUp>>
type Way = [what: string, tryIt: (fixture: Fixture) => Promise<unknown>]

/**
 * Creates a repository with rules for `r*` and `refs/tags/r*`. One ref that the rules protect exists,
 * on a commit that has passed; others lead to it, or would show what they lead to.
 */
async function setUp(t: Test, kind: 'heads' | 'tags') {
  const name = `around-${kind}`
  await server.createRepository(`owner/${name}`, { commits: 0 })
  const repository = await store.repositories.get('owner', name)
  const { path } = repository
  const url = `${server.url}/owner/${name}.git`
  const checkout = await createCheckout(t, url)
  const [folder, other] = [`refs/${kind}`, kind === 'heads' ? 'refs/tags' : 'refs/heads']
  const ruled = `${folder}/r1`

  const [passed = '', next = ''] = createCommits(path, 2, 'kept')
  const [unrelated = ''] = createCommits(path, 1, 'unrelated')
  await addReport({ store, repositoryId: repository.id, sha: passed }, 'ci')
  gitSync(path, ...IDENTITY, 'tag', '-m', 'x', 'of-passed', passed)
  gitSync(path, ...IDENTITY, 'tag', '-m', 'x', 'of-next', next)
  const like = Array.from({ length: 5 }, (_, index) => `${folder}/rule${index}`)
  gitWith(path, [ruled, ...like].map((ref) => `create ${ref} ${passed}\n`).join(''), 'update-ref', '--stdin')
  const link = (ref: string, target: string) => gitSync(path, 'symbolic-ref', ref, target)
  link(`${folder}/alias`, ruled)
  link('refs/aliases/r1', ruled)
  link(`${folder}/chain`, `${folder}/alias`)
  link(`${other}/alias`, ruled)
  link(`${folder}/r8`, `${folder}/free`)
  link(`${folder}/r9`, `${other}/free`)
  link('HEAD', kind === 'heads' ? ruled : 'refs/heads/kept')
  for (const refPattern of ['r*', 'refs/tags/r*'])
    await asAdministrator(store).rules.set(repository, { refPattern, required: ['ci'], bypass: [] })

  const send = async (body: Buffer, to = url, headers = {}) => {
    const { request, answer } = beginRpc(to, 'git-receive-pack', authorization, headers)
    request.end(body)
    return (await answer).body.toString('latin1')
  }
  return {
    path,
    url,
    checkout,
    kind,
    folder,
    other,
    ruled,
    /** Others that the rules protect, with the same value. */
    like,
    passed,
    next,
    unrelated,
    ofPassed: gitSync(path, 'rev-parse', 'of-passed'),
    ofNext: gitSync(path, 'rev-parse', 'of-next'),
    tree: gitSync(path, 'rev-parse', `${passed}^{tree}`),
    send,
    raw: (...commands: string[]) => send(pushBody(commands, ' report-status')),
    push: (...args: string[]) => tryGit(checkout, ['push', ...args], { authorization }),
    /** The refs that the rules protect, with their values. */
    protectedRefs: () =>
      gitSync(path, 'for-each-ref', '--format=%(objectname) %(refname)', 'refs/heads', 'refs/tags')
        .split('\n')
        .filter((line) => / refs\/(heads|tags)\/r/.test(line)),
  }
}

/** Ways to name the ref, of which most name another one, or none. */
const NAMES: ((fixture: Fixture) => string)[] = [
  ({ folder }) => `${folder}/R1`,
  ({ folder }) => folder.replace('refs', 'REFS').concat('/r1'),
  ({ folder, kind }) => `${folder}/../${kind}/r1`,
  ({ other, kind }) => `${other}/../${kind}/r1`,
  ({ folder }) => `${folder}/./r1`,
  ({ folder }) => `${folder}//r1`,
  ({ ruled }) => `${ruled}/`,
  ({ ruled }) => `${ruled}.`,
  ({ ruled }) => `${ruled}.lock`,
  ({ ruled }) => `${ruled}@{0}`,
  ({ folder }) => `${folder}/%72%31`,
  ({ folder }) => `${folder}/r\xef\xbc\x91`,
  ({ folder }) => `${folder}/\xc0\xf2`,
  ({ ruled }) => `refs/heads/${ruled}`,
  ({ ruled }) => `refs/tags/${ruled}`,
]

/** The same, with which a push is refused as a whole. */
const NO_NAMES: ((fixture: Fixture) => string)[] = [
  ({ folder }) => `/${folder}/r1`,
  ({ ruled }) => `${ruled}^{}`,
  ({ ruled }) => `${ruled}~0`,
  ({ ruled }) => `${ruled}\0x`,
  ({ ruled }) => `${ruled}\n`,
  ({ ruled }) => `${ruled} `,
  ({ ruled }) => ` ${ruled}`,
  ({ ruled }) => `${ruled}\u0001`,
  ({ folder }) => `${folder}/r*`,
  ({ kind }) => `${kind}/r1`,
  () => 'r1',
  () => 'HEAD',
  () => 'FETCH_HEAD',
]

/** What the report of a push says about a ref whatever its other refs are. */
const OF_ITS_OWN =
  /^(ci has not reported|not a commit|a (branch|tag) with required|funny refname|missing necessary objects|the branch has changed)/

/**
 * Pushes the update of each ref: all together, and alone those that were refused because of another
 * one.
 */
async function pushEach({ raw }: Fixture, refs: readonly string[], valuesOf: (index: number) => string) {
  const updates = refs.map((ref, index) => ({ ref, update: `${valuesOf(index)} ${ref}` }))
  const report = await raw(...updates.map(({ update }) => update))
  for (const { ref, update } of updates) {
    const [, reason = ''] = report.split(`ng ${ref} `)
    if (!report.includes(`ok ${ref}\n`) && !OF_ITS_OWN.test(reason)) await raw(update)
  }
}

const WAYS: Way[] = [
  ['forward', ({ raw, ruled, passed, next }) => raw(`${passed} ${next} ${ruled}`)],
  ['by force', ({ raw, ruled, passed, unrelated }) => raw(`${passed} ${unrelated} ${ruled}`)],
  ['deleted', ({ raw, ruled, passed }) => raw(`${passed} ${NONE} ${ruled}`)],
  [
    'any old and new values',
    async (fixture) => {
      const { like, passed, next, unrelated, ofPassed, ofNext, tree } = fixture
      const olds = [NONE, passed, next, ofPassed, 'f'.repeat(40)]
      for (const id of [NONE, next, unrelated, ofNext, tree, 'f'.repeat(40)]) {
        const others = olds.filter((old) => old !== id)
        await pushEach(fixture, like.slice(0, others.length), (index) => `${others[index]} ${id}`)
      }
    },
  ],
  [
    'an annotated tag of the same commit',
    ({ raw, ruled, passed, ofPassed }) => raw(`${passed} ${ofPassed} ${ruled}`),
  ],
  ['created on another commit', ({ raw, folder, next }) => raw(`${NONE} ${next} ${folder}/r2`)],
  ['created on a tag of another commit', ({ raw, folder, ofNext }) => raw(`${NONE} ${ofNext} ${folder}/r2`)],
  ['created on a tree', ({ raw, folder, tree }) => raw(`${NONE} ${tree} ${folder}/r2`)],
  [
    'other names',
    async (fixture) => {
      const { passed, next } = fixture
      const refs = NAMES.map((nameOf) => nameOf(fixture))
      for (const values of [`${NONE} ${next}`, `${passed} ${next}`, `${passed} ${NONE}`])
        await pushEach(fixture, refs, () => values)
    },
  ],
  ...NO_NAMES.map(
    (nameOf, index): Way => [
      `name ${index}`,
      async (fixture) => {
        const { raw, passed, next } = fixture
        for (const old of [NONE, passed])
          for (const id of [next, NONE]) if (old !== id) await raw(`${old} ${id} ${nameOf(fixture)}`)
      },
    ],
  ),
  ...['alias', 'chain'].map(
    (name): Way => [
      `${name} leads to it`,
      async ({ raw, folder, passed, next, ofPassed }) => {
        for (const id of [next, NONE, ofPassed]) await raw(`${passed} ${id} ${folder}/${name}`)
      },
    ],
  ),
  [
    'aliases of other kinds lead to it',
    async ({ raw, other, passed, next }) => {
      for (const ref of [`${other}/alias`, 'refs/aliases/r1'])
        for (const id of [next, NONE]) await raw(`${passed} ${id} ${ref}`)
    },
  ],
  ['a ruled name leads there', ({ raw, folder, next }) => raw(`${NONE} ${next} ${folder}/free`)],
  [
    'a ruled name of the other kind leads there',
    ({ raw, other, next }) => raw(`${NONE} ${next} ${other}/free`),
  ],
  [
    'the name and its alias in one push',
    ({ raw, ruled, folder, passed, next }) =>
      raw(`${passed} ${next} ${ruled}`, `${passed} ${next} ${folder}/alias`),
  ],
  [
    'deleted and created in one push',
    async ({ raw, ruled, passed, next }) => {
      await raw(`${passed} ${NONE} ${ruled}`, `${NONE} ${next} ${ruled}`)
      await raw(`${NONE} ${next} ${ruled}`, `${passed} ${NONE} ${ruled}`)
    },
  ],
  [
    'in the place of a folder, or of a file',
    async ({ raw, ruled, folder, passed, next }) => {
      await raw(`${NONE} ${next} ${ruled}/x`)
      await raw(`${NONE} ${next} ${folder}/r`, `${NONE} ${next} ${folder}/r/x`)
      await raw(`${passed} ${NONE} ${ruled}`, `${NONE} ${next} ${ruled}/x`)
      await raw(`${passed} ${NONE} ${ruled}`, `${NONE} ${passed} ${ruled}/x`, `${NONE} ${next} ${ruled}/y`)
    },
  ],
  [
    'atomic',
    async ({ send, ruled, folder, passed, next }) => {
      const commands = [`${NONE} ${passed} ${folder}/beside`, `${passed} ${next} ${ruled}`]
      await send(pushBody(commands, ' report-status atomic'))
      await send(pushBody(commands.toReversed(), ' report-status atomic'))
    },
  ],
  [
    'other capabilities',
    async ({ send, ruled, passed, next }) => {
      for (const capabilities of [
        '',
        'quiet',
        'report-status-v2 side-band-64k ofs-delta',
        'report-status push-options',
        'report-status object-format=sha256',
        'report-status atomic delete-refs agent=x session-id=x',
      ])
        await send(pushBody([`${passed} ${next} ${ruled}`], capabilities))
    },
  ],
  [
    'other protocols',
    async ({ send, url, ruled, passed, next }) => {
      for (const version of ['version=0', 'version=1', 'version=2'])
        await send(pushBody([`${passed} ${next} ${ruled}`], ' report-status'), url, {
          'git-protocol': version,
        })
    },
  ],
  [
    'compressed',
    ({ send, url, ruled, passed, next }) =>
      send(gzipSync(pushBody([`${passed} ${next} ${ruled}`], ' report-status')), url, {
        'content-encoding': 'gzip',
      }),
  ],
  [
    'other addresses of the repository',
    async ({ send, url, ruled, passed, next }) => {
      const body = pushBody([`${passed} ${next} ${ruled}`], ' report-status')
      for (const to of [
        url.replace(/\.git$/, ''),
        url.replace('.git', '%2egit'),
        url.replace('/owner/', '/OWNER/'),
        url.replace('/owner/', '//owner/'),
        url.replace('/owner/', '/./owner/'),
        `${url}/`,
      ])
        await send(body, to)
    },
  ],
  [
    'a certificate',
    ({ send, ruled, passed, next }) =>
      send(
        Buffer.from(
          [
            'push-cert\0report-status',
            'certificate version 0.1\n',
            'pusher x\n',
            '\n',
            `${passed} ${next} ${ruled}\n`,
            'push-cert-end\n',
          ]
            .map(packet)
            .join('')
            .concat('0000'),
        ),
      ),
  ],
  [
    'a shallow commit',
    async ({ raw, path, ruled, folder, passed, tree }) => {
      const text = `tree ${tree}\nparent ${passed}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n`
      const id = gitWith(path, text, 'hash-object', '-t', 'commit', '-w', '--stdin')
      for (const shallow of [id, passed])
        await raw(`shallow ${shallow}`, `${passed} ${id} ${ruled}`, `${NONE} ${id} ${folder}/r2`)
    },
  ],
  [
    'a replaced commit',
    async ({ raw, ruled, folder, passed, next, unrelated }) => {
      await raw(
        `${NONE} ${passed} refs/replace/${next}`,
        `${NONE} ${passed} refs/replace/${unrelated}`,
        `${passed} ${next} ${ruled}`,
      )
      await raw(`${passed} ${next} ${ruled}`, `${passed} ${unrelated} ${ruled}`)
      await raw(`${NONE} ${next} ${folder}/r2`)
    },
  ],
  [
    'a commit that only this push has',
    async ({ push, checkout, ruled, folder }) => {
      const id = await commit(checkout)
      await git(checkout, ['tag', '-f', '-a', '-m', 'x', 'new', id])
      await push('--force', 'origin', `${id}:${ruled}`, `new:${folder}/r2`, `new^{commit}:${folder}/r3`)
    },
  ],
  [
    'the pushes of git',
    async ({ push, url, ruled }) => {
      for (const args of [
        ['--atomic', 'origin', `+HEAD:${ruled}`],
        ['--prune', '--force', 'origin', `+HEAD:${ruled}`],
        ['-o', 'force', 'origin', `+HEAD:${ruled}`],
        ['--no-verify', '--no-thin', 'origin', `+HEAD:${ruled}`],
        [`--force-with-lease=${ruled}`, 'origin', `HEAD:${ruled}`],
        ['--delete', 'origin', ruled],
        ['--mirror', url],
      ])
        await push(...args)
    },
  ],
  [
    'many at once',
    ({ raw, ruled, passed, next, unrelated }) =>
      Promise.all([next, NONE, unrelated, next].map((id) => raw(`${passed} ${id} ${ruled}`))),
  ],
  [
    'packed refs',
    async ({ raw, path, ruled, passed, next }) => {
      gitSync(path, 'pack-refs', '--all')
      for (const old of [passed, NONE])
        for (const id of [next, NONE]) if (old !== id) await raw(`${old} ${id} ${ruled}`)
    },
  ],
]

for (const kind of ['heads', 'tags'] as const)
  t.test(`no known way leads around a rule of refs/${kind}`, async (t) => {
    const fixture = await setUp(t, kind)
    const { path, protectedRefs, ruled, passed, raw } = fixture
    const before = protectedRefs()
    t.equal(before.filter((line) => line === `${passed} ${ruled}`).length, 1)
    for (const [what, tryIt] of WAYS) {
      await tryIt(fixture)
      t.strictSame(protectedRefs(), before, what)
    }
    t.ok(WAYS.length >= 40, `${WAYS.length} ways`)

    t.match(
      await raw(`${NONE} ${passed} ${fixture.folder}/r2`),
      `ok ${fixture.folder}/r2`,
      'pushes were read',
    )
    for (const ref of ['r8', 'r9']) gitSync(path, 'symbolic-ref', '--delete', `${fixture.folder}/${ref}`)
    t.equal(gitSync(path, 'fsck', '--strict', '--no-dangling', '--no-progress'), '', 'nothing is broken')
  })
