import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import { backUp } from '../../../src/maintenance/backup/back-up.ts'
import { listBackups, readManifest } from '../../../src/maintenance/backup/generations.ts'
import { findBackup, restoreAll } from '../../../src/maintenance/backup/restore.ts'
import { databaseFile, openStore } from '../../../src/store/store.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { temporaryFolder } from '../../helpers/databases.ts'
import { createCommits, git } from '../../helpers/git.ts'
import { minimalEnvironment } from '../../helpers/process.ts'
import type { Random } from '../../helpers/random.ts'
import { addReport, addRepository } from '../../helpers/records.ts'
import { type Content, readContent } from './content.ts'

/**
 * System calls that change files or start programs, and up to which one of a thread it is killed:
 * how many there are.
 */
const CALLS: [name: string, last: number][] = [
  ['openat', 480],
  ['write', 60],
  ['pwrite64', 40],
  ['fsync', 6],
  ['mkdir', 3],
  ['rename', 2],
  ['link', 2],
  ['unlink', 3],
  ['rmdir', 2],
  ['execve', 4],
]
const KEEP = 3

const quiet = () => {}
const cli = resolve(import.meta.dirname, '../../../src/cli/main.ts')

/**
 * Kills `backup` and `restore` in turn, at a random system call of them or of a git child, or all
 * of their processes at a random moment. After each, every backup that says it is complete can be
 * restored and has what was there, and a restore has brought back everything or nothing that a
 * server would start with; the next one completes it. Returns how many were killed.
 */
export async function killAll(t: Test, kills: number, random: Random): Promise<number> {
  const folder = temporaryFolder(t)
  const dataDir = join(folder, 'data')
  const backups = join(folder, 'backups')
  const place = join(folder, 'place')
  const paths = await prepare(dataDir)
  /** What each backup must contain, and of the one that is being made. */
  const contents = new Map<string, Content>()
  const ended: Record<string, number> = {}

  const restoreInto = async (name: string) => {
    const time = name.slice(name.indexOf('-') + 1)
    await restoreAll({ dataDir: place }, await findBackup(backups, time), quiet)
    return readContent({ dataDir: place })
  }

  let killed = 0
  /** Milliseconds that the latest command took that was not killed. */
  let longest = 2_500
  const run = async (environment: Record<string, string>, ...args: string[]) => {
    const began = performance.now()
    const end = await start(random, longest, environment, ...args)
    ended[`${args[0]} ${end}`] = (ended[`${args[0]} ${end}`] ?? 0) + 1
    if (end === 0) longest = performance.now() - began
    else killed++
    return end
  }
  for (let round = 0; killed < kills; round++) {
    await rm(place, { recursive: true, force: true })
    change(paths, random)
    const content = await readContent({ dataDir })
    if (round % 10 === 0) await succeed(dataDir, backups)
    else await run({ DATA_DIR: dataDir }, 'backup', backups, '--keep', String(KEEP))
    const listed = await listBackups(backups)
    const [former = '', newest = ''] = ['', ...listed].slice(-2)
    if (!contents.has(newest)) {
      // A killed git made a repository unreadable, of which the content is the former one.
      for (const { id, problem } of (await readManifest(backups, newest)).repositories) {
        const refs = contents.get(former)?.refs[id]
        if (problem && refs) content.refs[id] = refs
      }
      contents.set(newest, content)
    }
    for (const name of listed.slice(0, -1)) if (!contents.has(name)) t.fail(`${name} was not there before`)
    if (round >= 30 && listed.length < KEEP) t.fail(`only ${listed.join(', ')} are left`)

    const end = await run({ DATA_DIR: place }, 'restore', backups)
    const isRestored = existsSync(databaseFile(place))
    if (end === 0 && !isRestored) t.fail('a restore that ended well has restored nothing')
    const restored = isRestored ? await readContent({ dataDir: place }) : await restoreInto(newest)
    const isSame = JSON.stringify(restored) === JSON.stringify(contents.get(newest))
    if (!isSame) t.same(restored, contents.get(newest), `${newest}, round ${round}`)
    const left = existsSync(join(place, 'repositories')) ? readdirSync(join(place, 'repositories')) : []
    if (!isRestored && left.includes('.restore')) t.fail('a complete restore leaves a part behind')

    if (round % 5 === 0) {
      const [oldest = ''] = listed
      await rm(place, { recursive: true, force: true })
      const old = await restoreInto(oldest)
      if (JSON.stringify(old) !== JSON.stringify(contents.get(oldest)))
        t.same(old, contents.get(oldest), oldest)
    }
    if (t.counts.fail > 0) break
    if (round % 25 === 0) t.comment(`${killed} kills: ${JSON.stringify(ended)}`)
  }
  t.comment(`${killed} kills: ${JSON.stringify(ended)}`)
  return killed
}

async function prepare(dataDir: string): Promise<string[]> {
  mkdirSync(dataDir, { mode: 0o700 })
  const store = await openStore({ dataDir })
  const paths: string[] = []
  await asAdministrator(store).users.create('alice')
  for (const objectFormat of ['sha1', 'sha256', 'sha1'] as const) {
    const options = { objectFormat, commits: 50 }
    const { id, path, commits } = await addRepository(store, `alice/r${paths.length}`, options)
    for (const sha of commits) await addReport({ store, repositoryId: id, sha }, 'ci')
    git(path, 'symbolic-ref', 'refs/heads/dangling', 'refs/heads/nowhere')
    paths.push(path)
  }
  await store.close()
  return paths
}

/** Changes repositories as pushes, deletions and garbage collections do. */
function change(paths: readonly string[], random: Random): void {
  const path = random.pick([...paths])
  createCommits(path, 3, random.pick(['main', 'topic', 'other']))
  if (random.onceIn(2)) git(path, 'update-ref', '-d', 'refs/heads/topic')
  if (random.onceIn(3)) git(path, 'gc', '--quiet', '--prune=now')
}

async function succeed(dataDir: string, backups: string): Promise<void> {
  const store = await openStore({ dataDir })
  await backUp(store, backups, { keep: KEEP, imported: false }, quiet)
  await store.close()
}

/**
 * Runs a command that is killed on its way, unless it ends before.
 *
 * @param longest milliseconds within which it is killed, unless that is at a system call
 * @returns its exit code, or the signal
 */
async function start(
  random: Random,
  longest: number,
  environment: Record<string, string>,
  ...args: string[]
): Promise<number | string> {
  const [call, last] = random.pick(CALLS)
  const isTimed = random.onceIn(2)
  const inject = `inject=${call}:signal=KILL:when=${random.below(last) + 1}`
  const expressions = ['-e', `trace=${call}`, '-e', inject]
  const strace = ['strace', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null', ...expressions]
  const [program = '', ...rest] = [...(isTimed ? [] : strace), process.execPath, cli, ...args]
  // Most calls and most of the time would otherwise be those that compile the program.
  const env = { ...minimalEnvironment(), NODE_COMPILE_CACHE: join(tmpdir(), 'soak-compiled'), ...environment }
  const child = spawn(program, rest, { env, stdio: 'ignore', detached: true })
  const exit = once(child, 'exit')
  if (isTimed) {
    await Promise.race([exit, setTimeout(random.below(longest))])
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    } catch {
      // It has ended.
    }
  }
  const [code, signal] = await exit
  return code ?? signal
}
