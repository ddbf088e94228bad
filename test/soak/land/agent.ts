import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import { commandLine } from '../../../clients/typescript/test/helpers/command-line.ts'
import { type LandingPlace, startLanding } from '../../../clients/typescript/test/helpers/landing.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { git } from '../../helpers/git.ts'

const skill = readFileSync(resolve(import.meta.dirname, '../../../clients/typescript/SKILL.md'), 'utf8')
const CHECKS = ['build', 'lint', 'unit', 'browser', 'docs', 'package'].map((name) => `ci/${name}`)
const WORK = [
  '-c',
  'user.name=Agent',
  '-c',
  'user.email=agent@example.org',
  'commit',
  '--quiet',
  '--all',
  '--message=Mend',
]

/** What an agent has to read: the number of its calls, and what they print. */
interface Cost {
  calls: number
  bytes: number
}

/**
 * Reports six checks of each commit of a topic, one of which fails unless `number.txt` contains 42.
 */
function startChecks(t: Pick<Test, 'teardown'>, { path, server, token }: LandingPlace): void {
  const seen = new Set<string>()
  const timer = setInterval(() => {
    const tips = git(
      path,
      'for-each-ref',
      '--format=%(objectname)',
      'refs/heads/land',
      'refs/heads/topic',
    ).split('\n')
    for (const sha of tips.filter((tip) => tip !== '' && !seen.has(tip))) {
      seen.add(sha)
      const number = git(path, 'show', `${sha}:number.txt`)
      for (const [index, context] of CHECKS.entries()) void check(sha, context, index, number)
    }
  }, 100)
  t.teardown(() => clearInterval(timer))

  async function check(sha: string, context: string, index: number, number: string): Promise<void> {
    const target_url = `https://ci.example.org/jobs/${index}`
    const report = (state: string, description: string) =>
      server.report('acme/rocket', sha, { state, context, description, target_url }, token)
    await report('pending', 'running')
    await setTimeout(1_000 + index * 500)
    if (context !== 'ci/unit' || number === '42') await report('success', 'passed in 12 s')
    else await report('failure', `number.txt must contain 42, not ${number}`)
  }
}

/** Returns the exit code and the command of each task that SKILL.md describes. */
function commandOf(name: string): string[] {
  const [, words = ''] = new RegExp(`^npx --no -- commit-status (${name} .*)$`, 'm').exec(skill) ?? []
  return words.split(' ')
}

/** Mends what the output of a failed check names. */
function mend(checkout: string, output: string): void {
  const [, file = '', wanted = ''] = /(\S+) must contain (\w+)/.exec(output) ?? []
  writeFileSync(join(checkout, file), `${wanted}\n`)
  git(checkout, ...WORK)
}

async function startWork(t: Test): Promise<{
  place: LandingPlace
  call(args: string[]): Promise<{ code: number | null; output: string }>
  cost: Cost
}> {
  const place = await startLanding(t)
  await asAdministrator(place.server.store).rules.set(place.repository, {
    refPattern: 'main',
    required: CHECKS,
    bypass: [],
  })
  const commit = place.write(place.ref('refs/heads/main'), { 'number.txt': '41\n' })
  git(place.checkout, 'reset', '--quiet', '--hard', commit)
  startChecks(t, place)
  const cost = { calls: 0, bytes: 0 }
  const env = { HOME: place.checkout, COMMIT_STATUS_URL: place.server.url, COMMIT_STATUS_TOKEN: place.token }
  return {
    place,
    cost,
    async call(args) {
      const { code, stdout, stderr } = await commandLine(t, args, { cwd: place.checkout, env }).finished
      cost.calls++
      cost.bytes += Buffer.byteLength(stdout + stderr)
      return { code, output: stdout + stderr }
    },
  }
}

/**
 * A script that knows only what SKILL.md says lands a commit with a seeded failure. A second one
 * polls instead.
 */
export async function landAsAgent(t: Test): Promise<void> {
  t.ok(/^\| 1 \| a check failed; .*\| mend it, commit, land again \|$/m.test(skill))
  const skilled = await startWork(t)
  for (let attempt = 0; attempt < 3; attempt++) {
    const { code, output } = await skilled.call(commandOf('land'))
    if (code === 0) break
    assert.equal(code, 1, output)
    mend(skilled.place.checkout, output)
  }
  t.equal(git(skilled.place.path, 'show', 'main:number.txt'), '42')

  const polling = await startWork(t)
  const { checkout, path } = polling.place
  for (let attempt = 0; attempt < 3; attempt++) {
    git(checkout, 'push', '--quiet', '--force', path, 'HEAD:refs/heads/topic/agent')
    polling.cost.calls++
    let output = ''
    // As a loop over the command line of a forge, which lists all checks each time.
    while (!/failure {2}/.test(output) && (output.match(/^success /gm)?.length ?? 0) < CHECKS.length) {
      await setTimeout(1_000)
      output = (await polling.call(['get', 'HEAD'])).output
    }
    if (!output.includes('failure')) break
    mend(checkout, output)
  }
  t.comment(
    `with SKILL.md: ${skilled.cost.calls} calls, ${skilled.cost.bytes} bytes; a poll loop of one second: ${polling.cost.calls} calls, ${polling.cost.bytes} bytes`,
  )
  t.ok(skilled.cost.calls <= 3 && skilled.cost.bytes <= 2_048)
  t.ok(polling.cost.calls > skilled.cost.calls && polling.cost.bytes > skilled.cost.bytes)
}
