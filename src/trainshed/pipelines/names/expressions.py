"""Reads expressions: which names they use and how, and what their values carry."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from trainshed.pipelines.names.facts import HARMLESS, UNSAVEABLE, is_constant
from trainshed.pipelines.names.locals import arguments, bindings
from trainshed.pipelines.names.notes import Frame, Notes
from trainshed.pipelines.names.source import line_magic
from trainshed.pipelines.names.usage import KNOWN, Carried, Level, Use

_SHELL_VARIABLE = re.compile(r"(?<!\$)\$\{?([A-Za-z_]\w*)")
_SHELL_EXPRESSION = re.compile(r"(?<![{$])\{([^{}]+)\}")


class Expressions(Notes, ABC):
    """Reads expressions, and the targets that their values are bound to."""

    @abstractmethod
    def _statement(self, node: ast.stmt) -> bool:
        """Read a statement; return whether it leaves its block."""

    @abstractmethod
    def _body(self, names: set[str], body: Sequence[ast.stmt] | ast.expr) -> Carried:
        """Return the global names that a function's body uses when it runs."""

    def _all(self, nodes: Sequence[ast.expr | None], level: Level) -> Carried:
        carried: Carried = {}
        for node in nodes:
            if node is not None:
                carried |= self._expr(node, level)
        return carried

    def _expr(self, node: ast.expr, level: Level) -> Carried:
        """Read an expression whose value is used in this way; return what that value carries."""
        match node:
            case ast.Name(id=name):
                return self._load(name, level)
            case ast.Constant():
                return {}
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=value):
                return self._expr(value, level)
            case ast.Subscript(value=value, slice=index):
                self._use(self._expr(index, Level.READ))
                return self._expr(value, level)
            case ast.BinOp(left=left, right=right):
                self._use(self._all([left, right], Level.READ))
                return {}
            case ast.UnaryOp(operand=operand):
                self._use(self._expr(operand, Level.READ))
                return {}
            case ast.Compare(left=left, comparators=others):
                self._use(self._all([left, *others], Level.READ))
                return {}
            case ast.BoolOp(values=values):
                carried = self._expr(values[0], level)
                with self._maybe():
                    return carried | self._all(values[1:], level)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._use(self._expr(test, Level.READ))
                with self._maybe():
                    return self._expr(body, level) | self._expr(orelse, level)
            case ast.Lambda(args=args, body=body):
                self._signature(args)
                return self._body(arguments(args), body)
            case (
                ast.ListComp(elt=element, generators=generators)
                | ast.SetComp(elt=element, generators=generators)
            ):
                return self._comprehension(generators, [element], level)
            case ast.GeneratorExp(elt=element, generators=generators):
                return self._comprehension(generators, [element], level)
            case ast.DictComp(key=key, value=value, generators=generators):
                return self._comprehension(generators, [key, value], level)
            case ast.NamedExpr(target=target, value=value):
                carried = self._expr(value, Level.TOUCH)
                self._target(target, carried, value)
                return carried
            case ast.JoinedStr(values=values):
                return self._all(values, Level.READ)
            case ast.FormattedValue(value=value, format_spec=spec):
                self._use(self._all([value, spec], Level.READ))
                return {}
            case ast.Dict(keys=keys, values=values):
                return self._all([*keys, *values], level)
            case _:
                nodes = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
                return self._all(nodes, level)

    def _comprehension(
        self, generators: Sequence[ast.comprehension], elements: Sequence[ast.expr], level: Level
    ) -> Carried:
        first = self._expr(generators[0].iter, Level.TOUCH)
        self._use(first)
        bound = bindings([generator.target for generator in generators])[0]
        self._frames.append(Frame("comprehension", bound, set()))
        with self._maybe():
            for index, generator in enumerate(generators):
                if index:
                    self._use(self._expr(generator.iter, Level.TOUCH))
                self._use(self._all(generator.ifs, Level.READ))
            carried = self._all(elements, max(level, Level.TOUCH))
        self._frames.pop()
        return first | carried

    def _call(self, node: ast.Call) -> Carried:
        harmless = isinstance(node.func, ast.Name) and node.func.id in HARMLESS
        if isinstance(node.func, ast.Attribute):
            if self._ipython(node, node.func):
                return {}
            called = self._expr(node.func.value, Level.TOUCH)
        else:
            called = self._expr(node.func, Level.READ)
        given = self._all(
            [*node.args, *(k.value for k in node.keywords)], Level.READ if harmless else Level.TOUCH
        )
        self._use(called)
        self._use(given)
        return given | self._instance(node.func, called)

    def _instance(self, callee: ast.expr, called: Carried) -> Carried:
        """An instance carries what its class's methods use; what a plain function returns carries none of it."""
        if not isinstance(callee, ast.Name) or self._is_local(callee.id) or self._later is not None:
            return {}
        if callee.id in self._classes:
            return called
        known = callee.id in self._possible or callee.id in self._prelude or callee.id in KNOWN
        # Perhaps a class of another step: by convention its name begins with a capital letter.
        is_class = not known and callee.id.lstrip("_")[:1].isupper()
        return {callee.id: Use(Level.READ)} if is_class else {}

    def _signature(self, args: ast.arguments) -> None:
        for default in (*args.defaults, *args.kw_defaults):
            if default is not None:
                self._use(self._expr(default, Level.TOUCH))

    def _target(self, node: ast.expr, carried: Carried, value: ast.expr | None) -> None:
        match node:
            case ast.Name(id=name):
                self._store(name, carried)
                if value is not None and self._later is None and not self._is_local(name):
                    self._describe(name, value)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
                for index, element in enumerate(elements):
                    matching = len(values) == len(elements) and not any(
                        isinstance(e, ast.Starred) for e in elements
                    )
                    self._target(element, carried, values[index] if matching else None)
            case ast.Starred(value=inner):
                self._target(inner, carried, None)
            case ast.Attribute(value=base):
                self._hold(base, carried)
                self._use(self._expr(base, Level.CHANGE))
            case ast.Subscript(value=base, slice=index):
                self._hold(base, carried)
                self._use(self._expr(base, Level.CHANGE))
                self._use(self._expr(index, Level.READ))
            case _:
                self._use(self._expr(node, Level.CHANGE))

    def _hold(self, base: ast.expr, carried: Carried) -> None:
        """`obj.callback = f`: from now on obj carries what f does."""
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if carried and isinstance(base, ast.Name) and self._later is None and not self._is_local(base.id):
            self._carries[base.id] = self._carries.get(base.id, {}) | carried

    def _describe(self, name: str, value: ast.expr) -> None:
        """Note of a value just bound whether it can be saved, and whether it is another name's object."""
        if isinstance(value, ast.Name) and value.id not in KNOWN and value.id != name:
            self._aliases[name] = (value.id, self._cell, value.lineno)
        kind = None
        if isinstance(value, ast.GeneratorExp):
            kind = "a generator"
        elif isinstance(value, ast.Call):
            called = ast.unparse(value.func) if isinstance(value.func, ast.Name | ast.Attribute) else ""
            kind = "a generator" if called in self._generators else UNSAVEABLE.get(called)
        if is_constant(value):
            self._kinds[name] = "constant"
        if kind is not None:
            self._unsaveable[name] = (kind, self._cell, value.lineno)

    def _ipython(self, node: ast.Call, function: ast.Attribute) -> bool:
        """Read what a magic or a shell line does to names, if the call is one."""
        inner = function.value
        if not (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Name)
            and inner.func.id == "get_ipython"
        ):
            return False
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if function.attr in ("system", "getoutput") and texts:
            self._expanded(texts[0])
        elif function.attr == "run_line_magic" and len(texts) == 2:
            line = self._line
            statements = line_magic(*texts)
            if statements is None:
                self._expanded(texts[1])
            for statement in statements or ():
                self._statement(statement)
            self._line = line
        return True

    def _expanded(self, text: str) -> None:
        """Read what IPython puts into the text of a shell line or of a magic: `{expression}` and `$name`."""
        for expression in _SHELL_EXPRESSION.findall(text):
            self._inline(expression)
        for name in _SHELL_VARIABLE.findall(text):
            if not self._is_local(name) and self._later is None:
                self._mention(name, Level.READ)
                if name not in self._definite:
                    self._need(name, maybe=True)

    def _inline(self, expression: str) -> None:
        try:
            parsed = ast.parse(expression.strip(), mode="eval")
        except (SyntaxError, ValueError):
            return
        self._use(self._expr(parsed.body, Level.READ))
