import { relative, resolve } from 'node:path'
import ts from 'typescript'

/**
 * Compiles the project, and fails for errors and for values of type `any` in the shipped code, with
 * which the compiler checks nothing: ones that are used or have a name. Part of `npm run check`.
 */
const root = resolve(import.meta.dirname, '../..')
const { config, error } = ts.readConfigFile(resolve(root, 'tsconfig.json'), ts.sys.readFile)
const { options, fileNames, errors: unknown } = ts.parseJsonConfigFileContent(config, ts.sys, root)
const program = ts.createProgram({
  rootNames: fileNames,
  options,
  configFileParsingDiagnostics: [...(error ? [error] : []), ...unknown],
})
const checker = program.getTypeChecker()
const problems: string[] = []

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

const errors = ts.getPreEmitDiagnostics(program)
process.stderr.write(
  ts.formatDiagnostics(errors, {
    getCurrentDirectory: () => root,
    getCanonicalFileName: (name) => name,
    getNewLine: () => '\n',
  }),
)
// What does not compile has the type any.
if (errors.length === 0) {
  const shipped = program
    .getSourceFiles()
    .filter(({ fileName }) => /^(src|clients\/[a-z]+\/src)\//.test(relative(root, fileName)))
  if (shipped.length === 0) problems.push('no shipped code found; check the paths')
  for (const file of shipped) visit(file, file)
}
for (const problem of problems) process.stderr.write(`${problem}\n`)
process.exit(errors.length + problems.length === 0 ? 0 : 1)
