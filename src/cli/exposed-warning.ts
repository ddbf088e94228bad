import { findExposed } from '../store/exposed-files.ts'

/** Says on standard error what other accounts of this machine can open of the data directory, and what mends it. */
export async function warnOfExposed(dataDir: string): Promise<void> {
  const exposed = await findExposed(dataDir)
  if (!exposed) return
  process.stderr.write(
    `warning: other accounts of this machine can open ${exposed.paths.join(', ')}. Run: ${exposed.command}\n`,
  )
}
