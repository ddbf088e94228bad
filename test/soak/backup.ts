import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { codeBlock, codeBlocks, createMachine, readDocument } from '../docs/machine.ts'
import { createPostgresDatabase } from '../helpers/databases.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { createRandom } from '../helpers/random.ts'
import { readContent } from './backup/content.ts'
import { killAll } from './backup/kills.ts'
import { recordEvidence } from './parts/evidence.ts'
import { requireProgram } from './parts/programs.ts'

/**
 * Does what the operator's guide says about backups, night after night, while the repositories
 * change as people and git's garbage collection change them, and compares every ref and row with
 * what its drill restores. Then kills backups and restores.
 */
const ROUNDS = Number(process.env.SOAK_ROUNDS ?? 100)
const KILLS = Number(process.env.SOAK_KILLS ?? 1_000)
const GUIDE = 'src/ops/README.md'

tap.setTimeout(14_400_000)
requireProgram('strace')
await provideDatabases(tap)
const seed = Number(process.env.SOAK_SEED ?? Date.now() % 1_000_000)

tap.test(`${ROUNDS} nights and drills as the guide says, half of them on PostgreSQL`, async (t) => {
  t.comment(`seed ${seed}`)
  const random = createRandom(seed)
  const machine = await createMachine(t)
  const databaseUrl = await createPostgresDatabase(t)
  const guide = machine.localize(readDocument(GUIDE))
  const section = codeBlocks(guide.split('## Back up and restore')[1]?.split('\n## ')[0] ?? '')
  const block = (part: string) => codeBlock(guide, part)
  const [, nightly = ''] =
    /^(?:[\d*]+ ){5}commit-status (.*)\n$/.exec(
      section.find(({ language }) => language === 'cron')?.code ?? '',
    ) ?? []
  // The drill ends by removing what it restored, which is compared before that.
  const [drill = '', removal = ''] = block('drill restore').split(/^(?=rm -r )/m)
  const toPostgres = block("echo 'DATABASE_URL=").replace(/(?<='DATABASE_URL=)[^']+/, databaseUrl)
  await machine.sh(`cat >commit-status.env <<'END'\n${block('METRICS_TOKEN=')}END`)
  await machine.sh(
    block('useradd')
      .replace(/^npm .*$/m, '')
      .replace(/^install .*dev.null.*$/m, ''),
  )
  await machine.sh(block('admin user create alice --password-stdin'))
  await machine.sh(`service start
admin user create robot
admin repo create alice/next --object-format sha256
admin rule set alice/rocket main --require ci --bypass alice
admin token create alice >token
for name in rocket next; do
  git init --quiet --initial-branch=main --object-format=$([ $name = next ] && echo sha256 || echo sha1) $name
  git -C $name remote add origin ${machine.url}/alice/$name.git
  git -C $name config user.name A; git -C $name config user.email a@example.org
  git --git-dir=data/repositories/$([ $name = next ] && echo 2 || echo 1).git config transfer.hideRefs refs/hidden
done`)

  for (let round = 1; round <= ROUNDS; round++) {
    if (round === Math.ceil(ROUNDS / 2)) await machine.sh(`set +u\n${toPostgres}`)
    const night = round % 3 === 0 ? `${push(random, round)} & ${nightly}; wait` : nightly
    await machine.sh(`${push(random, round)}\n${gc(random)}\n${night}`)
    // What was pushed during the night is in the next backup.
    if (round % 3 === 0) await machine.sh(nightly)
    await machine.sh(drill)
    const isPostgres = round >= Math.ceil(ROUNDS / 2)
    const served = await readContent({
      dataDir: join(machine.folder, 'data'),
      ...(isPostgres && { databaseUrl }),
    })
    const restored = await readContent({ dataDir: join(machine.folder, 'drill') })
    if (JSON.stringify(served) !== JSON.stringify(restored)) {
      t.same(restored, served, `round ${round}, seed ${seed}`)
      return
    }
    await machine.sh(removal)
    if (round % 10 === 0) t.comment(`${round} rounds`)
  }
  const backups = readdirSync(join(machine.folder, 'backups')).filter((name) => name.endsWith('.manifest'))
  t.ok(backups.length >= Math.min(ROUNDS, 7) && backups.length <= 7, `${backups.length} are kept`)
  t.pass(`${ROUNDS} rounds: every ref and row is restored`)
  if (t.counts.fail > 0) return
  recordEvidence(
    'backup',
    'repositories changed, were pushed to and had their garbage collected between and during backups',
    `${ROUNDS} backups, each restored: no ref and no row differed`,
  )
})

tap.test(`${KILLS} kills of backups and restores`, async (t) => {
  t.comment(`seed ${seed}`)
  const killed = await killAll(t, KILLS, createRandom(seed))
  if (t.counts.fail > 0) return
  recordEvidence(
    'backup',
    'backups and restores were killed, at a system call or at any moment',
    `${killed} kills: no complete backup was lost, and every restore brought back all or nothing`,
  )
})

type Random = ReturnType<typeof createRandom>

/** Returns lines that push, force, delete and report. The rule of the branch is bypassed. */
function push(random: Random, round: number): string {
  const name = random.pick(['rocket', 'next'])
  const id = random.below(1_000_000)
  return `(
export TOKEN=$(cat token)
cd ${name}
${random.onceIn(3) && round > 2 ? 'git reset --quiet --hard HEAD~1 2>/dev/null || true' : ''}
git commit --quiet --allow-empty --message=${id}
git push --quiet --force origin HEAD:main HEAD:refs/heads/topic-${random.below(5)} HEAD:refs/heads/deep-${id}/x HEAD:refs/tags/v${id}
curl --header "Authorization: Bearer $TOKEN" --header 'Content-Type: application/json' --data '{"state":"success","context":"ci"}' \\
  ${'$'}(git remote get-url origin | sed 's|/alice/\\(.*\\).git|/api/v1/repos/alice/\\1/statuses/|')$(git rev-parse HEAD) >/dev/null
old=$(git ls-remote origin 'refs/heads/deep-*' | awk 'NR <= ${random.below(3)} { print $2 }')
[ -z "$old" ] || git push --quiet origin --delete $old
)`
}

/** Returns lines that change repositories on the disk. */
function gc(random: Random): string {
  return ['data/repositories/1.git', 'data/repositories/2.git']
    .map((path) =>
      random.pick([
        `git --git-dir=${path} gc --quiet --prune=now`,
        `git --git-dir=${path} pack-refs --all`,
        `git --git-dir=${path} symbolic-ref refs/heads/alias refs/heads/topic-1; git --git-dir=${path} update-ref refs/hidden/x HEAD 2>/dev/null || true`,
        'true',
      ]),
    )
    .join('\n')
}
