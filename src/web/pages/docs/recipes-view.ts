import { field } from '../../forms/form.ts'
import { recipePath } from '../../text/ci-lines.ts'
import { type Html, html } from '../../text/html.ts'
import { copyButton } from '../../text/text.ts'
import { inlineView } from './markdown.ts'
import { fillIn, type Recipe, recipes } from './recipes.ts'

interface RecipesView {
  origin: string
  /** OWNER/NAME as given; empty if none was. */
  repository: string
  /** What is wrong with it. */
  error?: string | undefined
  recipe?: Recipe | undefined
}

/** The content of `/docs/recipes`. */
export function recipesView(view: RecipesView): Html {
  const { origin, repository, error, recipe } = view
  const purposes = Map.groupBy(recipes, ({ purpose }) => purpose)
  return html`<h1>Recipes</h1>
<p>Choose your CI system. The file comes with the address of this server. <a href="/docs/recipes/notes${repository && !error ? `?repository=${repository}` : ''}">Notes on all of them</a>
say how contexts are named, and how commits of a repository elsewhere get here.</p>
<form class="card" method="get" action="/docs/recipes">
  ${recipe ? html`<input type="hidden" name="file" value="${recipe.file}">` : ''}
  ${field(
    { name: 'repository', label: 'Repository', hint: 'OWNER/NAME on this server, to be filled in.', error },
    (attributes) =>
      html`<input ${attributes} value="${repository}" maxlength="201" autocomplete="off" spellcheck="false">`,
  )}
  <button type="submit">Fill in</button>
</form>
<ul class="recipes">${[...purposes].map(
    ([purpose, files]) =>
      html`<li>${files.map(
        ({ file }, index) =>
          html`${index > 0 ? ', ' : ''}<a href="${recipePath(repository, file)}"${file === recipe?.file ? html` aria-current="true"` : ''}>${file}</a>`,
      )}: ${inlineView(purpose, (target) => target)}</li>
`,
  )}</ul>
${recipe ? recipeView(recipe, origin, error ? '' : repository) : ''}`
}

function recipeView(recipe: Recipe, origin: string, repository: string): Html {
  const { file } = recipe
  return html`<h2 id="file">${file}</h2>
<div class="copy"><pre id="recipe" tabindex="0">${fillIn(recipe.text, origin, repository)}</pre>
  ${copyButton('recipe', `the file ${file}`)}</div>
<p>Keep a <a href="/settings/tokens${repository ? `?repository=${repository}` : ''}#new">token</a> as the secret
<code>COMMIT_STATUS_TOKEN</code>. The file <a href="/assets/recipes/${file}">as it is</a>, with the address of an example.</p>`
}
