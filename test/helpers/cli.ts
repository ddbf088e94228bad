import { AsyncLocalStorage } from 'node:async_hooks'
import { run } from '../../src/cli/run.ts'

export interface Outcome {
  code: number
  stdout: string
  stderr: string
}

/**
 * What the command that writes has printed. Anything else, such as tap's report of a test before,
 * is written as usual.
 */
const outputs = new AsyncLocalStorage<{ stdout: string; stderr: string }>()
for (const name of ['stdout', 'stderr'] as const) {
  const stream = process[name]
  const write = stream.write.bind(stream)
  type Done = (error?: Error | null) => void
  stream.write = (chunk: string | Uint8Array, encoding?: BufferEncoding | Done, done?: Done) => {
    const printed = outputs.getStore()
    if (!printed)
      return typeof encoding === 'string' ? write(chunk, encoding, done) : write(chunk, encoding ?? done)
    printed[name] += chunk
    return true
  }
}

/**
 * Runs a command line in this process and returns its exit code and output.
 *
 * @param printed gets the output while it is printed
 */
export async function capture(
  command: () => Promise<number>,
  printed = { stdout: '', stderr: '' },
): Promise<Outcome> {
  const code = await outputs.run(printed, command)
  return { code, ...printed }
}

/** Runs the administrator's command line in this process and returns its exit code and output. */
export function runCli(args: string[], environment: NodeJS.ProcessEnv): Promise<Outcome> {
  return capture(() => run(args, environment))
}

/**
 * Runs lines of a document, each of them `npm run --silent cli -- WORD…`, and returns what they
 * print.
 */
export async function runLines(lines: string, environment: NodeJS.ProcessEnv): Promise<string> {
  let printed = ''
  for (const line of lines.trim().split('\n')) {
    const [, words = ''] = /^npm run --silent cli -- ([^"$;&|<>\\]+)$/.exec(line) ?? []
    const args = Array.from(words.matchAll(/'([^']*)'|\S+/g), ([word, quoted]) => quoted ?? word)
    const { code, stdout, stderr } = await runCli(args, environment)
    if (code !== 0) throw new Error(`${line}: ${stderr}`)
    printed += stdout
  }
  return printed
}
