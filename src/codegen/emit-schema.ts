import openapiTypescript, { astToString, type OpenAPI3 } from 'openapi-typescript'
import type { Spec } from './spec.ts'

/** Types of paths and components, by openapi-typescript. */
export async function emitSchema(spec: Spec): Promise<string> {
  // The parser has validated the document; openapi-typescript names the same shape by a type of its own.
  const document: OpenAPI3 = JSON.parse(JSON.stringify(spec.document))
  return astToString(await openapiTypescript(document, { defaultNonNullable: false }))
}
