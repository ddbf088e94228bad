import { findExposed } from '../store/exposed-files.ts'

/** Warns if other accounts of this machine can open files in the data directory, and names the command that fixes it. */
export async function warnOfExposed(dataDir: string): Promise<void> {
  const exposed = await findExposed(dataDir)
  if (!exposed) return
  process.stderr.write(
    `warning: other accounts of this machine can open ${exposed.paths.join(', ')}. Run: ${exposed.command}\n`,
  )
}
