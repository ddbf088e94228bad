import type { WriteStream } from 'node:tty'

const COLORS = new Map([
  ['success', 32],
  ['pending', 33],
  ['failure', 31],
  ['error', 31],
])

/** Returns whether a stream shows colors: a terminal does, unless NO_COLOR is set (no-color.org). */
export function hasColors(stream: Pick<WriteStream, 'isTTY'>, env: NodeJS.ProcessEnv): boolean {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb'
}

/** Returns the text in the color of a state. */
export function paint(text: string, state: string, colors: boolean): string {
  const color = COLORS.get(state)
  return colors && color ? `\x1b[${color}m${text}\x1b[0m` : text
}

/**
 * Replaces characters that could control a terminal or change the direction of the text, and `##`, which begins commands
 * to Azure Pipelines, GitHub Actions and TeamCity (`##vso[…]`, `##[…]`, `##teamcity[…]`) anywhere in a line.
 */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu, ' ').replace(/##+/g, '#')
}

/** Writes a message to stderr. */
export function say(message: string): void {
  process.stderr.write(`commit-status: ${plain(message)}\n`)
}

/** Writes a line to stdout. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Writes a value to stdout as JSON, in which no command to a CI system can begin. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value).replaceAll('##', '#\\u0023'))
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
