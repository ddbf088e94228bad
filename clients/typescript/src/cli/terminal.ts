import type { WriteStream } from 'node:tty'
import { countsAs } from '../generated/operations.ts'

const COLORS = { success: 32, pending: 33, failure: 31 }
/** A state that a later version of the contract adds has none. */
const COLOR_OF = new Map(Object.entries(countsAs.State).map(([state, combined]) => [state, COLORS[combined]]))

/**
 * Returns whether a stream shows colors: a terminal does. NO_COLOR switches them off (no-color.org),
 * otherwise FORCE_COLOR switches them on, or off with `0` or `false` (force-color.org).
 */
export function hasColors(stream: Pick<WriteStream, 'isTTY'>, env: NodeJS.ProcessEnv): boolean {
  if (env.NO_COLOR) return false
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0' && env.FORCE_COLOR !== 'false'
  return stream.isTTY === true && env.TERM !== 'dumb'
}

/** Returns the text in the color of a state; what could be a command is removed from it. */
export function paint(text: string, state: string, colors: boolean): string {
  const color = COLOR_OF.get(state)
  const shown = plain(text)
  return colors && color ? `\x1b[${color}m${shown}\x1b[0m` : shown
}

/**
 * Removes what CI systems and terminals could take for a command from a text that begins a line or
 * is a part of one: characters that control a terminal or change the direction of the text; `##`,
 * which begins commands to Azure Pipelines, GitHub Actions and TeamCity (`##vso[…]`, `##[…]`,
 * `##teamcity[…]`) anywhere in a line; and `::` at the start, which does so for GitHub Actions
 * (`::set-output …::`), also after white space.
 */
export function plain(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu, ' ')
    .replace(/##+/g, '#')
    .replace(/^(\s*)::+/, '$1:')
}

/** Writes a message to stderr. */
export function say(message: string): void {
  process.stderr.write(`commit-status: ${plain(message)}\n`)
}

/** Writes a line of `plain` texts to stdout. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Writes what went wrong inside the program to stderr, with its stack. */
export function sayBug(error: unknown): void {
  const lines = String(error instanceof Error ? error.stack : error).split('\n')
  process.stderr.write(
    lines.map((line, index) => `${index === 0 ? 'commit-status: ' : ''}${plain(line)}\n`).join(''),
  )
}

/**
 * Writes a value to stdout as JSON, in which nothing controls a terminal and no command to a CI
 * system begins.
 */
export function printJson(value: unknown): void {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  print(JSON.stringify(value).replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]|(?<=#)#/gu, escaped))
}

/** Milliseconds without an answer after which people wonder. */
const SLOW = 3_000

/** Says once on stderr when an answer takes long; retries are silent otherwise. */
export async function noticeSlow<T>(answer: Promise<T>, waitForCommit = 0): Promise<T> {
  const problem = `no answer from the service yet${waitForCommit > 0 ? ', or it does not have the commit yet' : ''}`
  const timer = setTimeout(() => say(`${problem}; still trying`), SLOW)
  try {
    return await answer
  } finally {
    clearTimeout(timer)
  }
}
