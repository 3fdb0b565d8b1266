// SPDX-License-Identifier: UNLICENSED
pragma solidity ^0.8.20;

// A contract that another one creates; it keeps what it is given until it is told
// to end.
contract Drawer {
    constructor(bool fails) payable {
        require(!fails, "no drawer");
    }

    receive() external payable {}

    function end(address payable heir) external {
        selfdestruct(heir);
    }
}

// Moves value about in every way in which a contract can.
contract Till {
    event Made(address drawer);

    receive() external payable {}

    // One call with value.
    function pay(address payable to) external payable {
        (bool ok,) = to.call{value: msg.value}("");
        require(ok, "not paid");
    }

    // Calls itself again and again, and pays at each step.
    function nest(uint256 depth, address payable to) external payable {
        (bool ok,) = to.call{value: 1}("");
        require(ok, "not paid");
        if (depth > 0) {
            Till(payable(address(this))).nest{value: msg.value / 2}(depth - 1, to);
        }
    }

    // Pays and takes it back: the caller fails after its payment.
    function payAndFail(address payable to) external payable {
        (bool ok,) = to.call{value: msg.value}("");
        require(!ok, "paid and failed");
        revert("unreachable");
    }

    // Succeeds around calls that fail.
    function attempt(address payable to) external payable {
        (bool failed,) = address(this).call{value: 5}(abi.encodeCall(Till.payAndFail, (to)));
        require(!failed, "was to fail");
        (bool ok,) = to.call{value: 7}("");
        require(ok, "not paid");
    }

    // Creates two contracts, the second at an address that is known beforehand.
    function make(bytes32 salt) external payable {
        emit Made(address(new Drawer{value: 11}(false)));
        emit Made(address(new Drawer{value: 13, salt: salt}(false)));
    }

    // Creates a contract inside a call that fails, and one whose constructor fails.
    function makeAndFail(bytes32 salt) external payable {
        try this.makeThenRevert{value: 17}() {
            revert("was to fail");
        } catch {}
        try new Drawer{salt: salt}(true) {
            revert("was to fail");
        } catch {}
    }

    function makeThenRevert() external payable {
        new Drawer{value: msg.value}(false);
        revert("after all");
    }

    // Neither moves value: not to be listed.
    function borrow(address code, bytes calldata data) external payable {
        (bool ok,) = code.delegatecall(data);
        require(ok, "delegate failed");
        (ok,) = code.staticcall(abi.encodeWithSignature("nothing()"));
    }

    function endDrawer(address drawer, address payable heir) external {
        Drawer(payable(drawer)).end(heir);
    }

    function fail() external payable {
        revert("as asked");
    }
}
