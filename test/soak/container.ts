import { spawn } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import tap, { type Test } from 'tap'
import { parse } from 'yaml'
import { describeVariables } from '../../src/config.ts'
import { execute, temporaryFolder } from '../helpers/databases.ts'
import { git } from '../helpers/git.ts'
import { startPostgres } from '../helpers/postgres-server.ts'
import { callerOf } from '../helpers/server.ts'
import { requireProgram, run } from './parts/programs.ts'

/**
 * Builds the container image with Buildah and runs its root file system: read-only, without
 * capabilities, with the server as the first process. No image registry is needed: the base is a
 * Debian made by debootstrap. Wants to be root.
 */
const MIB = 1024 ** 2
const MOST_MIB = 200
const SUITE = 'bookworm'
const root = resolve(import.meta.dirname, '../..')
const compose = parse(readFileSync(join(root, 'src/packaging/compose.yaml'), 'utf8'), { merge: true })

tap.setTimeout(1_500_000)
requireProgram('buildah')
requireProgram('debootstrap')

const folder = temporaryFolder(tap)
chmodSync(folder, 0o755)

function buildah(...args: string[]): string {
  const storage = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')]
  return run('buildah', ...storage, '--storage-driver', 'vfs', ...args)
}

/** Makes what stands for the official image of Debian. */
function makeBase(): void {
  const base = join(folder, 'base')
  run('debootstrap', '--variant=minbase', SUITE, base)
  run('chroot', base, 'apt-get', 'clean')
  const container = buildah('from', 'scratch')
  buildah('add', container, base, '/')
  buildah('commit', container, 'localhost/base')
  buildah('rm', container)
  rmSync(base, { recursive: true })
}

interface Settings {
  User: string
  Env: string[]
  Entrypoint: string[]
  Volumes: Record<string, unknown>
  StopSignal: string
  Labels: Record<string, string>
  Healthcheck: { Test: string[] }
}

interface Image {
  settings: Settings
  /** Its root file system. */
  place: string
}

function build(): Image {
  run('npm', 'run', '--silent', 'package')
  const from = ['--pull=never', '--from', 'localhost/base', '--isolation', 'chroot']
  const what = ['--file', 'src/packaging/Containerfile', '--tag', 'localhost/server']
  const labels = ['--build-arg', 'VERSION=1.2.3', '--build-arg', 'REVISION=abc']
  buildah('build', '--quiet', '--format', 'docker', ...from, ...what, ...labels, '.')
  const container = buildah('from', '--pull=never', 'localhost/server')
  const settings = JSON.parse(buildah('inspect', '--type', 'image', 'localhost/server')).Docker.config
  return { settings, place: buildah('mount', container) }
}

/**
 * A shell script that enters a container: processes, mounts and root of its own, as little as
 * `docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --volume
 * …:/data` leaves. The command that follows it is the first process.
 */
const ENTER = `
  set -e
  mount --bind "$PLACE" "$PLACE"
  mount -o remount,bind,ro "$PLACE"
  mount --bind "$DATA" "$PLACE/data"
  mount -t tmpfs tmpfs "$PLACE/tmp"
  mount -t proc proc "$PLACE/proc"
  mount --rbind /dev "$PLACE/dev"
  exec chroot "$PLACE" setpriv --reuid="$USER_ID" --regid="$GROUP_ID" --clear-groups --no-new-privs \\
    --bounding-set=-all --inh-caps=-all env --ignore-environment "$@"`

interface Container {
  url: string
  /** Runs a command in it, with its environment, as `docker exec` does. */
  exec(...command: string[]): string
  /** Sends a signal to its first process. @returns exit code, or signal */
  stop(): Promise<number | string | null>
  /** Of its first process, as /proc shows it. */
  status(): string
}

async function start(
  t: Test,
  { settings, place }: Image,
  data: string,
  more: Record<string, string>,
): Promise<Container> {
  const environment = [...settings.Env, ...Object.entries(more).map(([name, value]) => `${name}=${value}`)]
  const [userId, groupId] = settings.User.split(':')
  const child = spawn(
    'unshare',
    [
      '--fork',
      '--kill-child',
      '--pid',
      '--mount',
      'sh',
      '-c',
      ENTER,
      'sh',
      ...environment,
      ...settings.Entrypoint,
    ],
    {
      env: { PATH: process.env.PATH, PLACE: place, DATA: data, USER_ID: userId, GROUP_ID: groupId },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const ended = new Promise<number | string | null>((resolve) => {
    child.on('exit', (code, signal) => resolve(code ?? signal))
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const url = await new Promise<string>((resolve, reject) => {
    ended.then((code) => reject(new Error(`the container ended with ${code}`)))
    createInterface({ input: child.stdout }).on('line', (line) => {
      const [, port] = /^Listening on http:\/\/0\.0\.0\.0:(\d+)$/.exec(line) ?? []
      if (port) resolve(`http://127.0.0.1:${port}`)
    })
  })
  const first = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim()
  return {
    url,
    exec: (...command) =>
      run(
        'nsenter',
        ...['--target', first, '--pid', '--mount', '--root', '--wd'],
        ...[
          'setpriv',
          '--no-new-privs',
          `--reuid=${userId}`,
          `--regid=${groupId}`,
          '--clear-groups',
          '--bounding-set=-all',
        ],
        ...['env', '--ignore-environment', ...environment, ...command],
      ),
    stop() {
      process.kill(Number(first), settings.StopSignal)
      return ended
    },
    status: () => readFileSync(`/proc/${first}/status`, 'utf8'),
  }
}

/** A folder that is the volume `/data`. */
function makeVolume(t: Test, { settings }: Image): string {
  const data = mkdtempSync(join(folder, 'data-'))
  const [userId, groupId] = settings.User.split(':').map(Number)
  chownSync(data, userId ?? 0, groupId ?? 0)
  t.teardown(() => rmSync(data, { recursive: true }))
  return data
}

/** Bytes of all files below a folder. */
function sizeOf(place: string): number {
  return Number(run('du', '--bytes', '--summarize', '--one-file-system', place).split('\t')[0])
}

makeBase()
const image = build()
const { settings, place } = image

tap.test('the image holds what the server needs and no more', async (t) => {
  const base = buildah('mount', buildah('from', '--pull=never', 'localhost/base'))
  const added = (sizeOf(place) - sizeOf(base)) / MIB
  t.comment(`${Math.round(sizeOf(place) / MIB)} MiB, ${Math.round(added)} MiB of them on top of the base`)
  t.ok(added <= MOST_MIB)
  t.match(settings, {
    User: /^[1-9]\d*:[1-9]\d*$/,
    Entrypoint: ['tini', '--', 'commit-status-server'],
    Volumes: { '/data': {} },
    StopSignal: 'SIGTERM',
    Labels: {
      'org.opencontainers.image.title': 'Commit status server',
      'org.opencontainers.image.description': /./,
      'org.opencontainers.image.licenses': 'MIT',
      'org.opencontainers.image.version': '1.2.3',
      'org.opencontainers.image.revision': 'abc',
    },
  })
  const present = (program: string) =>
    run('find', place, '-xdev', '-path', `*/bin/${program}`).split('\n').filter(Boolean)
  for (const tool of ['gcc', 'cc', 'g++', 'make', 'ld', 'python3', 'node-gyp'])
    t.same(present(tool), [], tool)
  t.equal(present('node').length, 1, 'one Node.js')
  t.same(readdirSync(join(place, 'var/lib/apt/lists')), [])
})

tap.test('a container with a read-only root serves, and SIGTERM ends it with 0', async (t) => {
  const data = makeVolume(t, image)
  const container = await start(t, image, data, {})
  const { call, report, read } = callerOf(container.url)
  t.equal((await call('GET', '/readyz')).status, 200)
  t.match(container.status(), /^Name:\ttini\n[\s\S]*\nUid:\t1000\t1000\t1000\t1000\n/)
  t.match(container.exec('id', '--user'), /^1000$/)
  t.throws(() => container.exec('touch', '/opt/commit-status/new'), 'its root cannot be written')
  const [command = '', ...check] = settings.Healthcheck.Test.slice(1)
  t.doesNotThrow(() => container.exec(command, ...check), 'healthy')

  container.exec('commit-status-admin', 'user', 'create', 'alice')
  const token = container.exec('commit-status-admin', 'token', 'create', 'alice')
  const path = container.exec('commit-status-admin', 'repo', 'create', 'alice/rocket')
  t.match(path, /^\/data\/repositories\//)
  const sha = pushCommit(container, token)
  t.equal((await report('alice/rocket', sha, { state: 'success', context: 'ci' }, token)).status, 201)
  t.match(await read('alice/rocket', sha), {
    status: 200,
    json: { state: 'success', statuses: [{ context: 'ci' }] },
  })
  // What imports need outside of the volume.
  const imported = container.exec(
    'sh',
    '-c',
    'git init --quiet --bare /data/imported.git && echo /data/imported.git',
  )
  container.exec('commit-status-admin', 'repo', 'import', 'alice/imported', imported)
  t.equal((await fetch(`${container.url}/alice/imported.git/info/refs?service=git-upload-pack`)).status, 200)

  t.equal(await container.stop(), 0)
  const again = await start(t, image, data, {})
  t.match(
    await callerOf(again.url).read('alice/rocket', sha),
    { status: 200, json: { state: 'success' } },
    'the volume keeps all',
  )
  t.equal(await again.stop(), 0)
})

tap.test('an unhealthy container says so', async (t) => {
  const container = await start(t, image, makeVolume(t, image), {})
  const [command = '', ...check] = settings.Healthcheck.Test.slice(1)
  // As another container would see it whose server does not answer.
  t.throws(() => container.exec('env', 'PORT=1', command, ...check))
  t.equal(await container.stop(), 0)
})

tap.test('two instances serve as in the compose file', async (t) => {
  const services: Record<string, { environment: Record<string, string>; read_only?: boolean }> =
    compose.services
  const postgres = await startPostgres()
  t.teardown(() => postgres.stop())
  await execute(postgres.url, 'create database commit_status')
  const { database, ...servers } = services
  t.same(Object.keys(servers), ['server-1', 'server-2'])
  t.ok(database)
  const data = makeVolume(t, image)
  const containers = await Promise.all(
    Object.values(servers).map(({ environment }, index) => {
      const variables = describeVariables().map(({ name }) => name)
      const known = Object.keys(environment).filter((name) => !variables.includes(name))
      t.same(known, [], 'only variables that the server reads')
      const address = new URL(postgres.url)
      address.pathname = new URL(environment.DATABASE_URL ?? '').pathname
      return start(t, image, data, {
        ...withoutReferences(environment),
        DATABASE_URL: address.href,
        PORT: `${3001 + index}`,
      })
    }),
  )
  const [first, second] = containers
  if (!first || !second) throw new Error('two instances')
  first.exec('commit-status-admin', 'user', 'create', 'alice')
  const token = first.exec('commit-status-admin', 'token', 'create', 'alice')
  first.exec('commit-status-admin', 'repo', 'create', 'alice/rocket')
  const sha = pushCommit(first, token)
  t.equal((await callerOf(second.url).report('alice/rocket', sha, { state: 'pending' }, token)).status, 201)
  t.match(await callerOf(first.url).read('alice/rocket', sha), { status: 200, json: { state: 'pending' } })
  for (const container of containers) t.equal(await container.stop(), 0)
})

/** What `docker compose` puts in for `${NAME:-}` where the variable is not set. */
function withoutReferences(environment: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).map(([name, text]) => [name, text.replace(/^\$\{\w+:-\}$/, '')]),
  )
}

/** Pushes one commit by HTTP. @returns its id */
function pushCommit({ url }: Container, token: string): string {
  const work = mkdtempSync(join(folder, 'work-'))
  const remote = new URL(`${url}/alice/rocket.git`)
  Object.assign(remote, { username: 'alice', password: token })
  git(work, 'init', '--quiet')
  git(work, 'commit', '--quiet', '--allow-empty', '--message=one')
  git(work, 'push', '--quiet', remote.href, 'HEAD:main')
  return git(work, 'rev-parse', 'HEAD')
}
