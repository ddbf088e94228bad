import { build, type Schema } from 'fast-json-stringify'
import { memoizeByObject } from '../util/memoize.ts'
import type { Schemas } from './validator.ts'

/** Returns the compiler for a contract's schemas. It compiles each schema once. */
export const serializersFor = memoizeByObject((schemas: Schemas) => {
  // The generator refuses schemas that are not of this type.
  const options = { schema: schemas as Record<string, Schema> }
  return memoizeByObject((schema: object): ((body: unknown) => string) => build(schema, options))
})
