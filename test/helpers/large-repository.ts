import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { git } from './git.ts'

const BATCH = 5_000

/**
 * Adds `count` commits to the branch `main` of a repository, and branches that start at the newest
 * of them, each with one commit of its own.
 *
 * @returns the commits of main, the newest first
 */
export async function fillLargeRepository(path: string, count: number, branches: number): Promise<string[]> {
  const child = spawn('git', ['-C', path, 'fast-import', '--quiet'], { stdio: ['pipe', 'ignore', 'inherit'] })
  const ended = once(child, 'close')
  const start = Math.floor(Date.now() / 1000) - count * 60
  const commit = (ref: string, index: number, message: string, more = '') =>
    `commit ${ref}\nmark :${index + 1}\ncommitter Test <test@example.org> ${start + index * 60} +0000\n` +
    `data ${message.length}\n${message}\n${more}\n`
  for (let index = 0; index < count; index += BATCH) {
    const size = Math.min(BATCH, count - index)
    const text = Array.from({ length: size }, (_, part) =>
      commit('refs/heads/main', index + part, `Change number ${index + part}`),
    )
    if (!child.stdin.write(text.join(''))) await once(child.stdin, 'drain')
  }
  for (let index = 0; index < branches; index++) {
    const from = `from :${count - (index % Math.min(count, 1_000))}\n`
    child.stdin.write(
      commit(`refs/heads/team-${index % 20}/topic-${index}`, count + index, `Topic ${index}`, from),
    )
  }
  child.stdin.end()
  const [code] = await ended
  if (code !== 0) throw new Error(`git fast-import ended with ${code}`)
  return git(path, 'rev-list', 'main').split('\n')
}
