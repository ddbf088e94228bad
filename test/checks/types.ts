import { statSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import ts from 'typescript'
import { findUnrecordedWrites, UNRECORDED } from './unrecorded-writes.ts'

/**
 * Compiles the project, and fails for errors and for values of type `any` in the shipped code, with
 * which the compiler checks nothing: ones that are used or have a name. It also fails for writes of
 * the server without a `Change`, unless they are listed. Part of `npm run check`.
 *
 * A run without findings stores what it has seen below node_modules. The next one checks only the
 * files that a change since then can affect, as the compiler finds them.
 */
const root = resolve(import.meta.dirname, '../..')
/** What decides what is refused, besides the compiler. */
const RULES = [import.meta.filename, resolve(import.meta.dirname, 'unrecorded-writes.ts')]
const { config, error } = ts.readConfigFile(resolve(root, 'tsconfig.json'), ts.sys.readFile)
const content = ts.parseJsonConfigFileContent(config, ts.sys, root)
const buildInfo = resolve(root, 'node_modules/.cache/types.tsbuildinfo')
const options = { ...content.options, incremental: true, tsBuildInfoFile: buildInfo }
const host = ts.createIncrementalCompilerHost(options)
const builder = ts.createSemanticDiagnosticsBuilderProgram(
  content.fileNames,
  options,
  host,
  // Other rules apply to all files.
  RULES.every((file) => isOlder(file, buildInfo)) ? ts.readBuilderProgram(options, host) : undefined,
  [...(error ? [error] : []), ...content.errors],
)
const checker = builder.getProgram().getTypeChecker()
const problems: string[] = []

function isOlder(file: string, other: string): boolean {
  const time = (path: string) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
  return time(file) < time(other)
}

function usesAny(node: ts.Node): boolean {
  if (ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node)) return isAny(node.expression)
  // The compiler gives no type to the keyword of `import(…)`.
  if (ts.isCallExpression(node))
    return node.expression.kind !== ts.SyntaxKind.ImportKeyword && isAny(node.expression)
  if (ts.isNewExpression(node)) return isAny(node.expression)
  return hasName(node) && isAny(node.name)
}

function hasName(node: ts.Node) {
  return (
    ts.isVariableDeclaration(node) ||
    ts.isParameter(node) ||
    ts.isBindingElement(node) ||
    ts.isPropertyDeclaration(node)
  )
}

function isAny(node: ts.Node): boolean {
  return (checker.getTypeAtLocation(node).flags & ts.TypeFlags.Any) !== 0
}

function visit(node: ts.Node, file: ts.SourceFile): void {
  if (usesAny(node)) {
    const { line } = file.getLineAndCharacterOfPosition(node.getStart())
    problems.push(`${relative(root, file.fileName)}:${line + 1}: any: ${node.getText()}`)
  }
  ts.forEachChild(node, (child) => visit(child, file))
}

/** Compares writes without a `Change` with the list of those that may, in files that were checked. */
function findWrites(): void {
  const program = builder.getProgram()
  const isChecked = (file: ts.SourceFile | undefined) => file === undefined || affected.has(file)
  const found = findUnrecordedWrites(program, root, isChecked)
  for (const place of found)
    if (!(place in UNRECORDED)) problems.push(`src/${place}: writes without a Change`)
  for (const place of Object.keys(UNRECORDED)) {
    const [file = ''] = place.split(' ')
    if (isChecked(program.getSourceFile(resolve(root, 'src', file))) && !found.has(place))
      problems.push(`src/${place}: is listed as writing without a Change, and does not`)
  }
}

const errors = [
  ...builder.getConfigFileParsingDiagnostics(),
  ...builder.getOptionsDiagnostics(),
  ...builder.getSyntacticDiagnostics(),
  ...builder.getGlobalDiagnostics(),
]
const affected = new Set<ts.SourceFile>()
for (;;) {
  const next = builder.getSemanticDiagnosticsOfNextAffectedFile()
  if (!next) break
  errors.push(...next.result)
  const files = 'fileName' in next.affected ? [next.affected] : next.affected.getSourceFiles()
  for (const file of files) affected.add(file)
}
process.stderr.write(
  ts.formatDiagnostics(errors, {
    getCurrentDirectory: () => root,
    getCanonicalFileName: (name) => name,
    getNewLine: () => '\n',
  }),
)
// What does not compile has the type any.
if (errors.length === 0) {
  const shipped = builder
    .getSourceFiles()
    .filter(({ fileName }) => /^(src|clients\/[a-z]+\/src)\//.test(relative(root, fileName)))
  if (shipped.length === 0) problems.push('no shipped code found; check the paths')
  for (const file of shipped) if (affected.has(file)) visit(file, file)
  findWrites()
}
for (const problem of problems) process.stderr.write(`${problem}\n`)
const isGood = errors.length + problems.length === 0
if (isGood) builder.emit()
process.exit(isGood ? 0 : 1)
