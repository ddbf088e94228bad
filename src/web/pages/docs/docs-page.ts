import { isName, isOwnerName } from '../../../domain/names.ts'
import { ServiceError } from '../../../errors.ts'
import { allowStyle } from '../../../replies/security-headers.ts'
import { sendPage } from '../../layout/layout.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { docsHead, docsStyle, docsView } from './docs-view.ts'
import { clientView, notesView } from './documents-view.ts'
import { recipes } from './recipes.ts'
import { recipesView } from './recipes-view.ts'
import { referenceView } from './reference.ts'

/**
 * Registers `/docs`, which renders the contract within the layout of the site, and what belongs to
 * it: samples, errors, and recipes for CI systems.
 */
export async function docsPage(pages: Pages): Promise<void> {
  pages.get('/docs', async (_request, reply) => {
    allowStyle(reply, docsStyle.toString())
    return sendPage(reply, { title: 'API docs', style: docsStyle, head: docsHead, wide: true }, docsView)
  })
  pages.get('/docs/reference', async (_request, reply) =>
    sendPage(reply, { title: 'Samples, pages, versions and errors' }, referenceView),
  )

  pages.get<{ Querystring: Query<'file' | 'repository'> }>('/docs/recipes', async (request, reply) => {
    const file = firstOf(request.query.file)
    const recipe = recipes.find((recipe) => recipe.file === file)
    if (file && !recipe) throw new ServiceError('path_unknown')
    const repository = firstOf(request.query.repository).trim()
    const error = repository === '' || isRepositoryName(repository) ? undefined : NOT_A_REPOSITORY
    const title = recipe ? `${recipe.file} · Recipes` : 'Recipes'
    return sendPage(
      reply.code(error ? 422 : 200),
      { title },
      recipesView({ origin: request.client.origin(), repository, error, recipe }),
    )
  })
  for (const [path, title, view] of [
    ['/docs/recipes/notes', 'Notes on recipes', notesView],
    ['/docs/client', 'Client', clientView],
  ] as const)
    pages.get<{ Querystring: Query<'repository'> }>(path, async (request, reply) => {
      const repository = firstOf(request.query.repository)
      const content = view(request.client.origin(), isRepositoryName(repository) ? repository : '')
      return sendPage(reply, { title }, content)
    })
}

const NOT_A_REPOSITORY = 'This is not the name of a repository. Give its owner and name, such as acme/rocket.'

/** Returns whether text has the form OWNER/NAME. Whether the repository exists is not looked up. */
function isRepositoryName(text: string): boolean {
  const [owner = '', name = '', ...rest] = text.split('/')
  return isOwnerName(owner) && isName(name) && rest.length === 0
}
