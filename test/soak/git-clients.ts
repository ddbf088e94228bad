import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import tap, { type Test } from 'tap'
import { basic, createCheckout, git, tryGit, workFolder } from '../git-http/client.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { gitWith } from '../helpers/git.ts'
import { isInstalled } from '../helpers/process.ts'
import { startServer, type TestServer } from '../helpers/server.ts'
import { recordEvidence } from './parts/evidence.ts'

/**
 * Lets git clients clone, fetch and push, each in twelve ways, and says which versions they have.
 * Takes git, Python, Go, Java and Maven from the machine, and installs the clients into a folder that
 * it removes; skips those for which a program is missing. Other versions of git are arguments: `npm
 * run soak -- git-clients /opt/git-2.36/bin/git`.
 */
const VERSIONS = {
  dulwich: '1.2.21',
  pygit2: '1.21.0',
  'isomorphic-git': '1.44.11',
  'go-git 5': 'v5.19.3',
  'go-git 6': 'v6.0.0-beta.1',
  JGit: '7.8.1.202611041320-r',
}
/** Milliseconds that a command may take: some install something. */
const TIMEOUT = 600_000
/** Bytes of the blobs that a partial clone leaves out. */
const OLD_BLOBS = 20
const BLOB = 10_000_000
/** Bytes of the packs of a partial clone. */
const LARGEST_PARTIAL_CLONE = 5_000_000
/** Exit code of a client that cannot do what it was asked for. */
const UNSUPPORTED = 3

const programs = join(import.meta.dirname, 'git-clients')
const folder = mkdtempSync(join(tmpdir(), 'git-clients-'))
tap.teardown(() => rmSync(folder, { recursive: true, force: true }))
tap.setTimeout(3_600_000)

interface Outcome {
  code: number | null
  stderr: string
}

/** A call of a client: `clone URL DIR DEPTH FILTER`, `fetch URL DIR SPEC REF`, `push URL DIR SPEC OPTION`. */
type Call = (words: readonly string[], token: string) => Promise<Outcome>

interface Client {
  name: string
  /** Programs of the machine by which it is installed. */
  needs: readonly string[]
  /** Operations that it has not got. */
  without: readonly string[]
  /** Installs it. Returns its name and version too. */
  install(): Promise<{ version: string; call: Call }>
}

/** Runs a program. Does not throw. */
function run(
  program: string,
  args: readonly string[],
  { cwd = folder, env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<Outcome & { stdout: string }> {
  const { promise, resolve } = Promise.withResolvers<Outcome & { stdout: string }>()
  const options = { cwd, env: { ...process.env, ...env }, timeout: TIMEOUT, maxBuffer: 64 * 1024 ** 2 }
  const child = execFile(program, args, options, (error, stdout, stderr) => {
    const code = error === null ? 0 : typeof error.code === 'number' ? error.code : null
    resolve({ code, stdout, stderr: stderr || (error?.message ?? '') })
  })
  child.stdin?.end()
  return promise
}

/** Runs a program that must succeed. Returns what it printed. */
async function must(program: string, args: readonly string[], options?: Parameters<typeof run>[2]) {
  const { code, stdout, stderr } = await run(program, args, options)
  if (code !== 0) throw new Error(`${program} ${args.join(' ')}\n${stdout}${stderr}`.slice(-3_000))
  return stdout.trim()
}

const calling =
  (program: string, ...first: string[]): Call =>
  (words, token) =>
    run(program, [...first, ...words], { env: { TOKEN: token } })

/** git itself. */
function gitClient(program: string): Client {
  const env = { PATH: `${dirname(program)}${delimiter}${process.env.PATH}` }
  return {
    name: program,
    needs: [program],
    without: [],
    async install() {
      const version = (await must(program, ['--version'])).replace(' version', '')
      return {
        version,
        call([operation = '', url = '', dir = '', first = '', second = ''], token) {
          const place = `--git-dir=${dir}`
          const args = {
            clone: [
              ...['clone', '--quiet', '--bare', ...(first ? [`--depth=${first}`] : [])],
              ...[...(second ? [`--filter=${second}`] : []), url, dir],
            ],
            fetch: [place, 'fetch', '--quiet', url, `+${first}:${second}`],
            push: [place, 'push', '--quiet', ...(second ? ['-o', second] : []), url, first],
          }[operation]
          const options = program === 'git' ? {} : { env }
          const credential = token ? { credential: { username: 'x', password: token } } : {}
          return tryGit(folder, args ?? [], { ...options, ...credential })
        },
      }
    },
  }
}

function pythonClient(name: 'dulwich' | 'pygit2', without: readonly string[]): Client {
  return {
    name,
    needs: ['python3'],
    without,
    async install() {
      const venv = join(folder, name)
      await must('python3', ['-m', 'venv', venv])
      await must(join(venv, 'bin/pip'), ['install', '--quiet', `${name}==${VERSIONS[name]}`])
      const call = calling(join(venv, 'bin/python'), join(programs, `${name}_client.py`))
      return { version: `${name} ${VERSIONS[name]}`, call }
    },
  }
}

function goClient(major: 5 | 6, without: readonly string[]): Client {
  const name = `go-git ${major}` as const
  return {
    name,
    needs: ['go'],
    without,
    async install() {
      const cwd = join(folder, `go-git-${major}`)
      const env = { GOPATH: join(folder, 'go'), GOCACHE: join(folder, 'go-cache'), GOFLAGS: '-modcacherw' }
      mkdirSync(cwd)
      writeFileSync(join(cwd, 'go.mod'), 'module soak\n\ngo 1.24\n')
      cpSync(join(programs, `go_git_${major}.go`), join(cwd, 'main.go'))
      await must('go', ['get', `github.com/go-git/go-git/v${major}@${VERSIONS[name]}`], { cwd, env })
      await must('go', ['mod', 'tidy'], { cwd, env })
      await must('go', ['build', '-o', 'client', '.'], { cwd, env })
      return { version: `${name} ${VERSIONS[name]}`, call: calling(join(cwd, 'client')) }
    },
  }
}

const clients: Client[] = [
  ...['git', ...process.argv.slice(3).map((program) => resolve(program))].map(gitClient),
  {
    name: 'JGit',
    needs: ['java', 'mvn'],
    without: ['partial clone'],
    async install() {
      const cwd = join(folder, 'jgit')
      cpSync(join(programs, 'pom.xml'), join(cwd, 'pom.xml'))
      cpSync(join(programs, 'JGitClient.java'), join(cwd, 'src/main/java/JGitClient.java'))
      const copy = 'org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies'
      const options = ['--quiet', '--batch-mode', `-Djgit=${VERSIONS.JGit}`, '-DincludeScope=runtime']
      await must('mvn', [...options, `-Dmaven.repo.local=${join(folder, 'm2')}`, 'compile', copy], { cwd })
      const classes = ['classes', 'dependency/*'].map((path) => join(cwd, 'target', path)).join(delimiter)
      return { version: `JGit ${VERSIONS.JGit}`, call: calling('java', '-cp', classes, 'JGitClient') }
    },
  },
  goClient(5, ['partial clone']),
  goClient(6, []),
  {
    name: 'isomorphic-git',
    needs: ['npm'],
    without: ['partial clone', 'fetch by id', 'push options'],
    async install() {
      const cwd = join(folder, 'isomorphic')
      mkdirSync(cwd)
      const options = ['--prefix', cwd, '--no-audit', '--no-fund', '--ignore-scripts']
      await must('npm', ['install', ...options, `isomorphic-git@${VERSIONS['isomorphic-git']}`])
      cpSync(join(programs, 'isomorphic.mjs'), join(cwd, 'main.mjs'))
      const call = calling(process.execPath, join(cwd, 'main.mjs'))
      return { version: `isomorphic-git ${VERSIONS['isomorphic-git']}`, call }
    },
  },
  pythonClient('dulwich', ['push options']),
  pythonClient('pygit2', ['partial clone']),
]

/** Tries all operations of a client. */
async function tryClient(t: Test, server: TestServer, index: number, client: Client, call: Call) {
  const token = await server.createToken('owner')
  const name = `client-${index}`
  const { path } = await server.createRepository(`owner/${name}`, { commits: 0 })
  await server.createRepository(`owner/${name}-private`, { private: true })
  const url = `${server.url}/owner/${name}.git`
  const large = await fillRepository(t, url, basic('x', token))
  const head = await git(path, ['rev-parse', 'main'])
  const repository = await server.store.repositories.get('owner', name)
  const rule = { refPattern: 'main', required: ['ci'], bypass: [] }
  await asAdministrator(server.store).rules.set(repository, rule)
  const place = workFolder(t)
  const [clone, shallow, partial] = ['clone', 'shallow', 'partial'].map((dir) => join(place, dir))
  if (!clone || !shallow || !partial) throw new Error('there are three folders')

  const served = async (ref: string) => (await tryGit(path, ['rev-parse', '--verify', '--quiet', ref])).stdout
  const commitIn = async (dir: string, parent: string, text: string) => {
    const tree = await git(path, ['rev-parse', `${parent}^{tree}`])
    return git(dir, [`--git-dir=${dir}`, 'commit-tree', '-m', text, '-p', parent, tree])
  }
  const here = async (dir: string, ...args: string[]) =>
    (await tryGit(place, [`--git-dir=${dir}`, ...args], { env: { GIT_ALLOW_PROTOCOL: '' } })).stdout

  /** Compares the outcome of an operation, and what it has done, with what is expected. */
  async function operation(
    what: string,
    outcome: Promise<Outcome>,
    check: (outcome: Outcome) => Promise<unknown> | unknown,
  ): Promise<void> {
    const result = await outcome
    const isMissing = client.without.includes(what)
    if (isMissing || result.code === UNSUPPORTED) {
      t.equal(result.code === UNSUPPORTED, isMissing, `${what}: not supported by the client`)
      return
    }
    await check(result)
    t.comment(
      `${what}: ${result.code === 0 ? 'succeeded' : result.stderr.trim().split('\n').slice(-3).join(' | ').slice(0, 300)}`,
    )
  }
  const succeeds =
    (what: string, has: () => Promise<unknown>, wanted: unknown) => async (result: Outcome) => {
      t.equal(result.code, 0, `${what}: ${result.stderr}`)
      t.equal(await has(), wanted, what)
    }
  const fails = (what: string, message: RegExp) => (result: Outcome) => {
    t.not(result.code, 0, what)
    t.match(result.stderr, message, what)
  }

  await operation(
    'clone',
    call(['clone', url, clone, '', ''], ''),
    succeeds('clone', () => here(clone, 'rev-list', '--count', head), '22'),
  )
  await operation(
    'shallow clone',
    call(['clone', url.replace(/\.git$/, ''), shallow, '1', ''], ''),
    succeeds('shallow clone', () => here(shallow, 'rev-list', '--count', head), '1'),
  )
  await operation('partial clone', call(['clone', url, partial, '', 'blob:none'], ''), async (result) => {
    await succeeds('partial clone', () => here(partial, 'rev-list', '--count', head), '22')(result)
    t.equal(await here(partial, 'cat-file', '-t', large), '', 'without old blobs')
    const [whole, part] = [packedBytes(path), packedBytes(partial)]
    t.ok(whole > OLD_BLOBS * BLOB && part < LARGEST_PARTIAL_CLONE, `${part} bytes of ${whole}`)
  })
  const next = await commitIn(path, head, 'next')
  await git(path, ['update-ref', 'refs/heads/next', next])
  await operation(
    'fetch',
    call(['fetch', url.replace(/\.git$/, '/'), clone, 'refs/heads/next', 'refs/fetched/next'], ''),
    succeeds('fetch', () => here(clone, 'rev-parse', 'refs/fetched/next'), next),
  )
  const lost = await commitIn(path, head, 'no ref leads here')
  await operation(
    'fetch by id',
    call(['fetch', url, clone, lost, 'refs/fetched/id'], ''),
    succeeds('fetch by id', () => here(clone, 'cat-file', '-t', lost), 'commit'),
  )

  const topic = await commitIn(clone, head, 'topic')
  await git(clone, [`--git-dir=${clone}`, 'update-ref', 'refs/heads/topic', topic])
  const tag = gitWith(
    clone,
    `object ${topic}\ntype commit\ntag v1\ntagger T <t@example.org> 1 +0000\n\nv1\n`,
    'mktag',
  )
  await git(clone, [`--git-dir=${clone}`, 'update-ref', 'refs/tags/v1', tag])
  const push = (spec: string, option = '', secret = token) =>
    call(['push', `${url}/`, clone, spec, option], secret)
  const pushed = 'refs/heads/topic:refs/heads/topic'
  await operation(
    'push',
    push(pushed),
    succeeds('push', () => served('refs/heads/topic'), topic),
  )
  await operation('push refused by a rule', push('refs/heads/topic:refs/heads/main'), async (result) => {
    fails('push refused by a rule', /ci has not reported/)(result)
    t.equal(await served('refs/heads/main'), head, 'nothing has moved')
  })
  await operation(
    'push tag',
    push('refs/tags/v1:refs/tags/v1'),
    succeeds('push tag', () => served('v1'), tag),
  )
  await operation(
    'push options',
    push('refs/heads/topic:refs/heads/options', 'ci.skip'),
    succeeds('push options', () => served('refs/heads/options'), topic),
  )
  await operation(
    'push delete',
    push(':refs/heads/topic'),
    succeeds('push delete', () => served('refs/heads/topic'), ''),
  )
  await operation(
    'wrong token',
    push('refs/heads/topic:refs/heads/wrong', '', 'cst_wrong'),
    fails('wrong token', /401|auth|credential|unauthorized|not authorized/i),
  )
  await operation(
    'private without token',
    call(['clone', url.replace('.git', '-private.git'), join(place, 'private'), '', ''], ''),
    fails('private without token', /401|auth|credential|user name|username|unauthorized|not authorized/i),
  )
  t.equal(await git(path, ['fsck', '--connectivity-only', '--no-dangling']), '', 'the repository is intact')
}

/** Pushes 22 commits, the first ones with blobs that the last one has not. Returns the id of one of these. */
async function fillRepository(t: Test, url: string, authorization: string): Promise<string> {
  const checkout = await createCheckout(t, url)
  const at = (index: number) => `T <t@example.org> ${1_700_000_000 + index} +0000`
  const chunks: Buffer[] = []
  for (let index = 0; index < OLD_BLOBS; index++) {
    const from = index === 0 ? 'from refs/heads/main^0\n' : ''
    chunks.push(
      Buffer.from(
        `commit refs/heads/main\ncommitter ${at(index)}\ndata 1\n.\n${from}M 100644 inline large\ndata ${BLOB}\n`,
      ),
    )
    chunks.push(Buffer.alloc(BLOB, `${index} `), Buffer.from('\n'))
  }
  chunks.push(Buffer.from(`commit refs/heads/main\ncommitter ${at(OLD_BLOBS)}\ndata 1\n.\nD large\n\n`))
  await git(checkout, ['fast-import', '--quiet'], { input: Buffer.concat(chunks) })
  await git(checkout, ['push', '--quiet', 'origin', 'main'], { authorization })
  return git(checkout, ['rev-parse', 'main~1:large'])
}

function packedBytes(path: string): number {
  const folder = join(path, 'objects/pack')
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
}

tap.test('git clients', async (t) => {
  const server = await startServer(t, { budget: { limit: 1_000, window: 300 } })
  const versions: string[] = []
  for (const [index, client] of clients.entries()) {
    const missing = client.needs.filter((program) => !isInstalled(program))
    const options = missing.length > 0 ? { skip: `${missing.join(', ')}: not installed` } : {}
    await t.test(client.name, options, async (t) => {
      const { version, call } = await client.install()
      versions.push(version)
      await tryClient(t, server, index, client, call)
    })
  }
  t.comment(`versions: ${versions.join(', ')}`)
  if (t.counts.fail > 0) return
  recordEvidence(
    'git-clients',
    'git clients cloned, fetched, pushed and were refused, each in twelve ways',
    `all as expected: ${versions.join(', ')}`,
  )
})
