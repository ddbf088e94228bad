import { AsyncLocalStorage } from 'node:async_hooks'
import { run } from '../../src/cli/run.ts'

export interface Outcome {
  code: number
  stdout: string
  stderr: string
}

/** What the command that writes has printed. Anything else, such as tap's report of a test before, is written as usual. */
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

/** Runs the administrator's command line in this process and returns its exit code and output. */
export async function runCli(args: string[], environment: NodeJS.ProcessEnv): Promise<Outcome> {
  const printed = { stdout: '', stderr: '' }
  const code = await outputs.run(printed, () => run(args, environment))
  return { code, ...printed }
}
