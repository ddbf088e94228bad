import { run } from '../../src/cli/run.ts'

export interface Outcome {
  code: number
  stdout: string
  stderr: string
}

/** Runs the administrator's command line in this process and returns its exit code and output. */
export async function runCli(args: string[], environment: NodeJS.ProcessEnv): Promise<Outcome> {
  const { stdout, stderr } = process
  const printed = { stdout: '', stderr: '' }
  const originals = { stdout: stdout.write, stderr: stderr.write }
  const capture = (name: 'stdout' | 'stderr') => (text: string | Uint8Array) => {
    printed[name] += text
    return true
  }
  stdout.write = capture('stdout')
  stderr.write = capture('stderr')
  try {
    const code = await run(args, environment)
    return { code, ...printed }
  } finally {
    stdout.write = originals.stdout
    stderr.write = originals.stderr
  }
}
