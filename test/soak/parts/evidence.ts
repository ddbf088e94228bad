import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../../..')
/** The head of the table. */
const HEAD = '| proof | what was done | outcome | commit | date |'
const PAGE = 'test/soak/EVIDENCE.md'
/** Of the files that are loaded, whatever is checked out meanwhile. */
const COMMIT = currentCommit()

/**
 * Writes what a proof has found into its row of the page of evidence, with the date and the commit.
 *
 * @param harm what was done to the server; a row each
 * @param outcome how often, and what was lost
 */
export function recordEvidence(proof: string, harm: string, outcome: string): void {
  const page = resolve(root, PAGE)
  const lines = readFileSync(page, 'utf8').trimEnd().split('\n')
  const begin = `| \`${proof}\` | ${harm} |`
  const row = `${begin} ${outcome} | ${COMMIT} | ${new Date().toISOString().slice(0, 10)} |`
  const index = lines.findIndex((line) => line.startsWith(begin))
  if (index >= 0) lines[index] = row
  // Another table may follow.
  else lines.splice(lines.indexOf('', lines.indexOf(HEAD)), 0, row)
  writeFileSync(page, `${lines.join('\n')}\n`)
}

/** Returns the commit that is checked out, and whether files other than the page differ from it. */
function currentCommit(): string {
  const git = (...args: string[]) => spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  const id = git('rev-parse', '--short=10', 'HEAD').stdout.trim()
  const { status } = git('diff', '--quiet', 'HEAD', '--', '.', `:(exclude)${PAGE}`)
  return status === 0 ? id : `${id || 'unknown'}, changed`
}
