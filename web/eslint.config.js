import js from "@eslint/js";
import jsxA11y from "eslint-plugin-jsx-a11y";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules", "src/api/schema.d.ts"] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  jsxA11y.flatConfigs.strict,
  reactHooks.configs.flat.recommended,
  {
    languageOptions: {
      parserOptions: {
        projectService: { allowDefaultProject: ["eslint.config.js"] },
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      // Whatever a person reads has a message in each language; placeholders show what is typed.
      "no-restricted-syntax": [
        "error",
        {
          selector: "JSXText[value=/[A-Za-z]{2}/]",
          message: "A text that is shown is a message: use text() with a key of src/messages.",
        },
        {
          selector:
            "JSXAttribute[name.name=/^(label|title|description|alt|aria-label)$/] > Literal[value=/[A-Za-z]{2}/]",
          message: "A text that is shown is a message: use text() with a key of src/messages.",
        },
      ],
      // Both libraries keep state that the React compiler cannot see; none is used here.
      "react-hooks/incompatible-library": "off",
    },
  },
  { files: ["eslint.config.js"], extends: [tseslint.configs.disableTypeChecked] },
);
