import openapiTypescript, { astToString } from 'openapi-typescript'
import type { Spec } from './spec.ts'

/** Types of paths and components, by openapi-typescript. */
export async function emitSchema({ document }: Spec): Promise<string> {
  return astToString(await openapiTypescript(JSON.stringify(document), { defaultNonNullable: false }))
}
