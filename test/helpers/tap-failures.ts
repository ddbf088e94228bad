/**
 * Keys of tap's diagnostics that say where a failure is, which its title does, or how a process was
 * started.
 */
const LOCATION = /^ *(at|source|stack|command|args|jobId|tapCaught|compare|errorOrigin):/

/** What loads test files. An error is not in its files, even if it surfaced there. */
const LOADER = /(^|\/)(run-together|tap-hooks)\.ts$/

/**
 * Returns each failure in TAP output: file and line, names of the tests around it, the assertion,
 * and what was found. A test that fails only because of those within it is no failure of its own.
 * The outermost tests are processes, and those in them files.
 *
 * @param seconds the time limit of a file, for the message about one that exceeded it
 */
export function failuresOf(tap: string, seconds: number): string[] {
  const failures: string[] = []
  const lines = tap.split('\n')
  /** The test that is open at each depth, and how many failures came before it. */
  const open: { name: string; before: number }[] = []
  for (const [index, line] of lines.entries()) {
    const depth = (/^ */.exec(line)?.[0].length ?? 0) / 4
    const [, begun] = /^ *# Subtest: (.*)/.exec(line) ?? []
    if (begun !== undefined) {
      open.length = depth
      open.push({ name: begun, before: failures.length })
    }
    const [, name] = /^ *not ok \d+ - (.*?)(?: # time=.*)?$/.exec(line) ?? []
    if (name === undefined) continue
    const own = open[depth]
    if (own?.name === name && failures.length > own.before) continue
    const diagnostics = diagnosticsAt(lines, index + 1, depth * 4 + 2)
    const path = open.slice(2, depth).map((test) => test.name)
    failures.push(describe([...path, name], (open[1] ?? open[0])?.name ?? '', diagnostics, seconds))
  }
  return failures
}

/** Returns the lines between `---` and `...`, without their indentation. */
function diagnosticsAt(lines: readonly string[], start: number, indentation: number): string[] {
  if (lines[start]?.trim() !== '---') return []
  const end = lines.findIndex((line, index) => index > start && /^ *\.\.\.$/.test(line))
  return lines.slice(start + 1, end).map((line) => line.slice(indentation))
}

function describe(path: string[], begun: string, diagnostics: string[], seconds: number): string {
  const diagnostic = (key: string) =>
    diagnostics.find((line) => line.trimStart().startsWith(`${key}: `))?.split(': ')[1]
  const [file, line, code] = [diagnostic('fileName'), diagnostic('lineNumber'), diagnostic('exitCode')]
  if (path.length === 1 && path[0] === 'timeout!') {
    // A process that was killed has printed nothing, not even which file it had begun.
    const expired = diagnostic('expired')
    return `${expired === 'TAP' ? begun : expired}: not ended after ${seconds} s`
  }
  if (path.at(-1) === 'timeout!')
    return `${begun}: still running after ${seconds} s: ${path.slice(0, -1).join(' › ')}`
  // Only a process has an exit code.
  if (code !== undefined)
    return `${begun}: ended with ${code === 'null' ? diagnostic('signal') : code} and no failed test; see its error above`
  // A file whose imports failed, or an error that has no stack of its own, such as that of a
  // process.
  const place = file === undefined || LOADER.test(file) ? begun : `${file}:${line}`
  let isShown = true
  const shown = diagnostics.filter((text) => {
    if (/^\w+:/.test(text)) isShown = !LOCATION.test(text)
    return isShown
  })
  return [`${place} ${path.join(' › ')}`, ...shown.map((text) => `  ${text}`)].join('\n').trimEnd()
}
