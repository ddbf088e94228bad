import { join, relative } from 'node:path'
import ts from 'typescript'

/** What runs the statements: they are the engines. */
const ENGINES = /^src\/store\/(sqlite|postgres)\//
/** What writes without a `Change`, and why it may. */
export const UNRECORDED: Record<string, string> = {
  'maintenance/backup/restore.ts checkEmpty': 'reads tables by their names',
  'maintenance/backup/restore.ts restoreBackup': 'restores rows as they were, and records that',
  'maintenance/backup/restore.ts restoreBackup setLastIds': 'the same',
  'maintenance/backup/restore.ts restoreInto': 'the same',
  'maintenance/backup/write.ts writeBackup': 'reads in one transaction',
  'store/accounts/sessions.ts createSessionStore use': 'notes when a session was used last',
  'store/accounts/tokens.ts createTokenStore touch': 'notes when tokens were used last',
  'store/audit/change.ts createAudit transaction': 'begins each change',
  'store/schema/migrate.ts appliedMigrations': 'migrates',
  'store/schema/migrate.ts migrate': 'the same',
  'store/schema/migrate.ts missingFunctions': 'the same',
  'store/schema/migrate.ts tablesOf': 'the same',
  'store/failures/failure-store.ts createFailureStore countFailure':
    'counts failures of addresses; the one that blocks is recorded',
  'store/failures/failure-store.ts createFailureStore reserve': 'the same',
  'store/failures/failure-store.ts createFailureStore reserve release': 'the same',
  'store/failures/statements.ts failureStatements': 'the same',
  'store/failures/statements.ts failureStatements count': 'the same',
  'store/failures/trim.ts createTrimming remove': 'the same',
  'store/repositories/pushes.ts createPushStore': 'stores what a push asks for; its end is recorded',
  'store/repositories/pushes.ts createPushStore open': 'the same',
  'store/statuses/statuses.ts createStatusStore': 'stores reports, which name their reporter',
  'store/statuses/statuses.ts createStatusStore report': 'the same',
  'store/store.ts openAndMigrate': 'migrates',
}

/** The functions of an engine by which something is written, beside those of its `kysely`. */
const WRITING = new Set(['write', 'exclusively', 'setLastId'])

/** Returns whether a value can write to the database, outside of a transaction. */
function isWriter(type: ts.Type): boolean {
  return type.getProperty('insertInto') !== undefined && type.symbol?.name !== 'Transaction'
}

function isReader(type: ts.Type | undefined): boolean {
  return type?.getProperty('selectFrom') !== undefined && type.getProperty('insertInto') === undefined
}

/** Returns whether an expression that can write is only asked to read. */
function isOnlyRead(checker: ts.TypeChecker, node: ts.Expression): boolean {
  const { parent } = node
  if (ts.isPropertyAccessExpression(parent)) return parent.name.text === 'selectFrom'
  if (!ts.isCallExpression(parent)) return false
  const parameter = checker.getResolvedSignature(parent)?.parameters[parent.arguments.indexOf(node)]
  return parameter !== undefined && isReader(checker.getTypeOfSymbolAtLocation(parameter, parent))
}

/** Returns whether a node is a value, and not the name of a declaration, a property or a type. */
function isValue(node: ts.Node): node is ts.Expression {
  const { parent } = node
  if (!ts.isIdentifier(node))
    return (
      ts.isPropertyAccessExpression(node) ||
      ts.isElementAccessExpression(node) ||
      ts.isCallExpression(node) ||
      ts.isNewExpression(node) ||
      ts.isAsExpression(node) ||
      ts.isNonNullExpression(node)
    )
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node
  if (ts.isBindingElement(parent)) return parent.initializer === node
  if (ts.isParameter(parent) || ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent))
    return parent.initializer === node
  return (
    ts.isExpressionStatement(parent) || ts.isExpression(parent) || ts.isShorthandPropertyAssignment(parent)
  )
}

/** Returns whether a property is a function of `Engine` that writes. */
function isWriteOfEngine(property: ts.Symbol | undefined): boolean {
  return (
    WRITING.has(property?.name ?? '') &&
    (property?.declarations ?? []).some(
      ({ parent }) => ts.isInterfaceDeclaration(parent) && parent.name.text === 'Engine',
    )
  )
}

/** Returns whether something is written here, or given to what may write. */
function mayWrite(checker: ts.TypeChecker, node: ts.Node): boolean {
  if (ts.isBindingElement(node)) {
    const name = node.propertyName ?? node.name
    return (
      ts.isIdentifier(name) && isWriteOfEngine(checker.getTypeAtLocation(node.parent).getProperty(name.text))
    )
  }
  if (ts.isPropertyAccessExpression(node) && isWriteOfEngine(checker.getSymbolAtLocation(node.name)))
    return true
  return isValue(node) && isWriter(checker.getTypeAtLocation(node)) && !isOnlyRead(checker, node)
}

/** Returns the names of the functions around a node, after that of their file. */
function placeOf(folder: string, node: ts.Node): string {
  const names: string[] = []
  const isFunction = (value: ts.Node | undefined) =>
    value !== undefined && (ts.isArrowFunction(value) || ts.isFunctionExpression(value))
  for (let at: ts.Node = node; !ts.isSourceFile(at); at = at.parent) {
    if (ts.isFunctionDeclaration(at) || ts.isMethodDeclaration(at)) names.unshift(at.name?.getText() ?? '')
    if ((ts.isVariableDeclaration(at) || ts.isPropertyAssignment(at)) && isFunction(at.initializer))
      names.unshift(at.name.getText())
  }
  return [relative(join(folder, 'src'), node.getSourceFile().fileName), ...names].join(' ')
}

/** Returns the files of the server without its engines. */
export function filesWithoutEngines(program: ts.Program, folder: string): ts.SourceFile[] {
  return program.getSourceFiles().filter(({ fileName }) => {
    const path = relative(folder, fileName)
    return path.startsWith('src/') && !ENGINES.test(path)
  })
}

/** Returns where the server writes without a `Change`, in files for which `isChecked` returns true. */
export function findUnrecordedWrites(
  program: ts.Program,
  folder: string,
  isChecked: (file: ts.SourceFile) => boolean,
): Set<string> {
  const checker = program.getTypeChecker()
  const places = new Set<string>()
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node)) return
    if (mayWrite(checker, node)) places.add(placeOf(folder, node))
    ts.forEachChild(node, visit)
  }
  for (const file of filesWithoutEngines(program, folder).filter(isChecked)) visit(file)
  return places
}
