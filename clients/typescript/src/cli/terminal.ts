import type { WriteStream } from 'node:tty'

const COLOURS = new Map([
  ['success', 32],
  ['pending', 33],
  ['failure', 31],
  ['error', 31],
])

/** Whether a stream shows colours: a terminal, unless NO_COLOR says no (no-color.org). */
export function hasColours(stream: Pick<WriteStream, 'isTTY'>, env: NodeJS.ProcessEnv): boolean {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb'
}

/** The state in its colour. */
export function paint(text: string, state: string, colours: boolean): string {
  const colour = COLOURS.get(state)
  return colours && colour ? `\x1b[${colour}m${text}\x1b[0m` : text
}

/** Text of others without characters that could steer a terminal or turn the direction of the line. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu, ' ')
}

/** A message on standard error. */
export function say(message: string): void {
  process.stderr.write(`commit-status: ${plain(message)}\n`)
}

/** A line on standard output. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
