import { execFileSync } from 'node:child_process'
import { cpSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { createBareRepository } from '../../src/git/repository.ts'
import { openStore } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { runCli } from '../helpers/cli.ts'
import { runCliProcess } from '../helpers/cli-process.ts'
import { openTestStore, sqlite, temporaryFolder } from '../helpers/databases.ts'

t.test('backs up, restores, checks and prunes', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  const rocket = { owner: 'alice', name: 'rocket', visibility: 'public', objectFormat: 'sha1' } as const
  const { id, path } = await asAdministrator(store).repositories.create(rocket)
  await createBareRepository(path, 'sha1')
  const sha = 'a'.repeat(40)
  const report = {
    repositoryId: id,
    context: 'ci',
    state: 'success',
    description: null,
    target_url: null,
  } as const
  await store.statuses.report({ ...report, sha })

  const folder = temporaryFolder(t)
  const here = { DATA_DIR: options.dataDir, INIT_CWD: folder }
  const backup = await runCliProcess(here, 'backup', 'backups')
  t.same([backup.code, backup.stderr], [0, ''], 'no progress unless at a terminal')
  const backups = join(folder, 'backups')
  const database = readdirSync(backups).find((name) => name.endsWith('.database')) ?? ''
  t.equal(
    backup.stdout,
    `backed up to ${backups} as ${basename(database, '.database')}\nverified 0 bytes of the folder in 0.0 s\n`,
  )
  for (const keep of ['0', 'all', '1.5'])
    t.equal((await runCli(['backup', backups, '--keep', keep], here)).code, 2)
  t.equal((await runCli(['backup', backups, '--verify', 'some'], here)).code, 2)
  const all = { DATA_DIR: temporaryFolder(t), INIT_CWD: folder }
  const programs = temporaryFolder(t)
  const interrupt =
    '#!/bin/sh\ncase "$*" in *" init "*) kill -INT $PPID; exec sleep 5 ;; esac\nexec "$GIT" "$@"\n'
  const git = execFileSync('which', ['git'], { encoding: 'utf8' }).trim()
  writeFileSync(join(programs, 'git'), interrupt.replace('$GIT', git), { mode: 0o755 })
  const PATH = `${programs}:${process.env.PATH}`
  const interrupted = await runCliProcess({ ...all, PATH }, 'restore', 'backups')
  t.not(interrupted.code, 0)
  t.same(readdirSync(all.DATA_DIR, { recursive: true }), ['repositories'], 'nothing was restored')
  const restored = await runCliProcess(all, 'restore', 'backups', '--lock-users')
  t.same([restored.code, restored.stdout], [0, ''])
  t.match(
    restored.stderr,
    /^Restored from the backup of \S+Z: 0 users, 1 repository, 0 tokens, 1 status\.\n0 users locked\. /,
  )
  t.same((await runCli(['check'], all)).code, 0)

  for (const command of ['backup', 'restore'])
    t.match(await runCli([command, '-'], here), {
      code: 2,
      stderr: /^error: "-" is not a path \(expected/,
    })

  const there = { DATA_DIR: temporaryFolder(t), INIT_CWD: folder }
  t.match(await runCli(['restore', join(backups, database), '--time', '2026'], there), {
    code: 2,
    stderr: /^error: --time: \S+ is not a folder of backups \(see .* restore --help\)\n/,
  })
  const restore = await runCli(['restore', join(backups, database)], there)
  t.same([restore.code, restore.stdout], [0, ''])
  t.match(
    restore.stderr,
    /^Restored from the backup .*\nIn what was restored, everything done after that time is undone: tokens that were revoked work again/,
  )
  const again = await runCli(['restore', backups], there)
  t.equal(again.code, 1)
  t.match(
    again.stderr,
    /^error: the database is not empty: it contains owners; .* DATA_DIR or DATABASE_URL\n$/,
  )

  const check = await runCli(['check'], there)
  t.equal(check.code, 1)
  t.match(check.stdout, /^repository alice\/rocket: .*\n$/, 'its files were not restored')
  t.match(check.stderr, /error: found 1 problem/)
  t.match(await runCli(['check', '--prune'], here), { code: 2, stderr: /--prune needs --commits/ })
  for (const [path, problem] of [
    [join(folder, 'nothing'), /^error: \S+\/nothing does not exist\n$/],
    [join(backups, database), /\.database is not a folder of backups\n$/],
    [folder, /contains no complete backup\n$/],
  ] as const)
    t.match(
      await runCli(['check', '--full', '--backup', path], here),
      { code: 1, stdout: '', stderr: problem },
      path,
    )
  const relative = await runCliProcess(here, 'check', '--full', '--backup', 'nothing')
  t.match(relative.stderr, `${folder}/nothing does not exist`, 'where the caller is')
  const later = '000009-20991122T000000Z.database'
  cpSync(join(backups, database), join(backups, later))
  const unfinished = await runCli(['restore', join(backups, later)], {
    ...here,
    DATA_DIR: temporaryFolder(t),
  })
  t.match(unfinished, { code: 1, stderr: /belongs to a backup that did not end: \S+\.manifest is missing/ })
  const older = await runCli(['restore', backups], { ...here, DATA_DIR: temporaryFolder(t) })
  t.match(older, { code: 0, stderr: /^note: 000009-20991122T000000Z is not restored/ })
  rmSync(join(backups, later))
  const noBackup = await runCli(['check', '--backup', '.'], here)
  t.match(noBackup, { code: 2, stderr: /--backup needs --full/ })
  const commits = await runCliProcess(here, 'check', '--commits')
  t.same([commits.code, commits.stdout], [1, `commit alice/rocket ${sha}: no longer in git\n`])
  t.same((await runCli(['check'], here)).code, 0)
  rmSync(join(options.dataDir, 'repositories'), { recursive: true })
  const incomplete = await runCli(['backup', backups], here)
  t.equal(incomplete.code, 1)
  t.match(
    incomplete.stderr,
    /^alice\/rocket: .* cannot be opened: .*\nerror: 1 repository could not be read; /,
  )

  for (const wrong of ['', 'yesterday', '0d', '365']) {
    t.equal((await runCli(['prune', '--older-than', wrong], there)).code, 2, `"${wrong}"`)
  }
  t.equal((await runCli(['prune'], there)).code, 2)
  const prune = await runCli(['prune', '--older-than', '365d'], there)
  t.same([prune.code, prune.stdout, prune.stderr], [0, '', 'Commits checked: 1. Statuses removed: 0.\n'])
  // Until the clock has left the second of the report.
  await setTimeout(1_100)
  const wouldPrune = await runCliProcess(there, 'prune', '--older-than', '1s', '--dry-run')
  t.same([wouldPrune.code, wouldPrune.stderr], [0, 'Commits checked: 1. Statuses to be removed: 1.\n'])
  const opened = await openStore({ dataDir: there.DATA_DIR })
  t.teardown(() => opened.close())
  t.equal((await opened.statuses.list(id, sha)).length, 1)
})
